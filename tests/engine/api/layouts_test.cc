// Every value that a run tells of has the elements that its extents say, whatever layout the plan
// keeps it in: those of the plan without passes, and of the one without packs.
#include <gtest/gtest.h>

#include <map>

#include "tests/engine/api/comparison.h"
#include "tests/engine/api/small_networks.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::ModelBuilder;
using test::NamedTensors;
using test::Network;
using test::RandomFloats;
using Ints = std::vector<int64_t>;

const graph::Dim kN = graph::Dim::Symbol("N");

// An image that lies channels-last meets one that does not, in operators of both kinds.
Network MixedLayouts() {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, 3, 16, 16})
      .Initializer("w", RandomFloats({3, 3, 1, 1}, 1))
      .Node("Conv", {"x", "w"}, {"c"})
      .Node("MaxPool", {"c"}, {"p"}, {{"kernel_shape", Ints{1, 1}}})
      .Node("Concat", {"p", "x"}, {"joined"}, {{"axis", int64_t{1}}})
      .Node("Add", {"x", "p"}, {"sum"})
      .Node("Softmax", {"sum"}, {"soft"}, {{"axis", int64_t{3}}})
      .Node("Concat", {"joined", "soft"}, {"y"}, {{"axis", int64_t{1}}});
  return {"mixed", builder.Output("y", DType::kFloat, {kN, 9, 16, 16}).Serialize()};
}

// Transposes to channels-last and back between convolutions.
Network Sandwich() {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, 3, 16, 16})
      .Initializer("w", RandomFloats({5, 3, 3, 3}, 1))
      .Initializer("v", RandomFloats({4, 5, 1, 1}, 2))
      .Node("Conv", {"x", "w"}, {"c"})
      .Node("Transpose", {"c"}, {"t"}, {{"perm", Ints{0, 2, 3, 1}}})
      .Node("Softmax", {"t"}, {"s"})
      .Node("Transpose", {"s"}, {"u"}, {{"perm", Ints{0, 3, 1, 2}}})
      .Node("Conv", {"u", "v"}, {"y"});
  return {"sandwich", builder.Output("y", DType::kFloat, {kN, 4, 14, 14}).Serialize()};
}

std::vector<Network> AllNetworks() {
  std::vector<Network> networks = test::Networks();
  networks.push_back(MixedLayouts());
  networks.push_back(Sandwich());
  return networks;
}

const std::vector<NamedTensor>& Request() {
  static const std::vector<NamedTensor> request = {{"x", RandomFloats({2, 3, 16, 16}, 42)}};
  return request;
}

struct Told {
  NamedTensors values;  // by their names in the report
  PlanReport report;
};

Told Tell(const Network& network, const EngineOptions& options) {
  const Engine engine(options);
  const auto model = test::LoadModel(engine, network.bytes);
  Told told;
  if (model == nullptr) return told;
  told.report = test::ReportOf(*model, Request());
  RunOptions run;
  run.observe = [&told](const NamedTensor& value) { told.values[value.name] = value.tensor; };
  const auto result = model->Run(Request(), run);
  EXPECT_TRUE(result.ok()) << result.status();
  return told;
}

// Every value that both tell of is the same within the tolerance; how many there are.
int ExpectSameValues(const Told& actual, const Told& expected, test::Tolerance tolerance) {
  int compared = 0;
  for (const auto& [name, tensor] : actual.values) {
    const auto found = expected.values.find(name);
    if (found == expected.values.end()) continue;
    EXPECT_TRUE(test::Close(tensor, found->second, tolerance)) << "value '" << name << "'";
    ++compared;
  }
  return compared;
}

// The shapes told are those of the report; how many of the values are kept channels-last.
int ExpectReportedShapes(const Told& told) {
  int channels_last = 0;
  for (const ValueReport& value : told.report.values) {
    const auto found = told.values.find(value.name);
    if (found == told.values.end() || !value.shape) continue;
    EXPECT_EQ(found->second.shape(), *value.shape) << "value '" << value.name << "'";
    if (value.layout == Layout::kChannelsLast) ++channels_last;
  }
  return channels_last;
}

TEST(Layouts, EveryValueAfterEveryTaskIsThatOfThePlainPlan) {
  for (const Network& network : AllNetworks()) {
    const Told reference = Tell(network, test::WithoutPacks());
    for (const Isa isa : test::IsaLevels()) {
      SCOPED_TRACE(fmt::format("{}, {}", network.name, IsaName(isa)));
      EngineOptions plain = test::WithoutPasses();
      plain.isa = isa;
      const Told unfused = Tell(network, plain);
      const Told told = Tell(network, {.threads = 2, .isa = isa});
      EXPECT_GT(ExpectReportedShapes(unfused), 0) << "no value is channels-last";
      EXPECT_GT(ExpectReportedShapes(told), 0) << "no value is channels-last";
      EXPECT_GT(ExpectSameValues(told, unfused, test::OfScale(1e-5)), 2);
      EXPECT_GT(ExpectSameValues(unfused, reference, test::OfScale(1e-5)), 4);
    }
  }
}

// Nothing but the layouts differs where no pass re-associates: all bits are the same.
TEST(Layouts, OrderOfTheNodesLeavesTheBitsOfEveryValue) {
  for (const Network& network : AllNetworks()) {
    SCOPED_TRACE(network.name);
    const Told first = Tell(network, {.threads = 1});
    for (const std::string& order : test::OrdersOf(network.bytes)) {
      const Told told = Tell({network.name, order}, {.threads = 2});
      EXPECT_EQ(ExpectSameValues(told, first, test::Exact()),
                static_cast<int>(first.values.size()));
    }
  }
}

}  // namespace
}  // namespace tandem
