#include "server/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace tandem::server {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

StatusOr<Invocation> Parse(const std::vector<std::string>& arguments) {
  return ParseCommandLine(arguments);
}

// The configuration that `arguments` after a repository give.
ServerConfig Serve(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "--model-repository=/models");
  const StatusOr<Invocation> parsed = Parse(arguments);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  if (!parsed.ok()) return {};
  EXPECT_TRUE(std::holds_alternative<ServerConfig>(*parsed));
  return std::get<ServerConfig>(*parsed);
}

std::string Refusal(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "--model-repository=/models");
  const StatusOr<Invocation> parsed = Parse(arguments);
  EXPECT_FALSE(parsed.ok());
  if (parsed.ok()) return "";
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(Message(parsed.status()));
}

TEST(CommandLine, DefaultsAreThoseOfTheManual) {
  const ServerConfig config = Serve({});
  EXPECT_EQ(config.model_repository, "/models");
  EXPECT_EQ(config.grpc.port, 8001);
  EXPECT_EQ(config.http.port, 8000);
  EXPECT_EQ(config.metrics.port, 8002);
  EXPECT_TRUE(config.grpc.enabled && config.http.enabled && config.metrics.enabled);
  EXPECT_EQ(config.grpc.address, "0.0.0.0");
  EXPECT_EQ(config.threads, 0);
  EXPECT_FALSE(config.isa.has_value());
  EXPECT_EQ(config.default_max_batch_size, 32);
  EXPECT_EQ(config.max_queue, 0);
  EXPECT_EQ(config.max_message_bytes, std::numeric_limits<int32_t>::max());
  EXPECT_EQ(config.max_request_memory, 0u);
  EXPECT_EQ(config.drain_delay, milliseconds(0));
  EXPECT_EQ(config.drain_timeout, milliseconds(30'000));
  EXPECT_TRUE(config.strict_readiness);
  EXPECT_FALSE(config.exit_on_error);
  EXPECT_TRUE(config.triton_metrics);
  EXPECT_EQ(config.log_format, LogFormat::kText);
  EXPECT_EQ(config.log_level, LogLevel::kInfo);
}

TEST(CommandLine, FlagsWithoutASubcommandMeanServe) {
  const StatusOr<Invocation> bare = Parse({"--model-repository", "/m", "--threads", "3"});
  const StatusOr<Invocation> serve = Parse({"serve", "--model-repository", "/m", "--threads", "3"});
  ASSERT_TRUE(bare.ok() && serve.ok());
  EXPECT_EQ(std::get<ServerConfig>(*bare).threads, 3);
  EXPECT_EQ(std::get<ServerConfig>(*serve).threads, 3);
}

TEST(CommandLine, TheStartLineOfKServesTritonRuntimeIsUnderstood) {
  const StatusOr<Invocation> parsed =
      Parse({"--model-store=/mnt/models", "--grpc-port=9000", "--http-port=8080",
             "--allow-grpc=true", "--allow-http=true"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const auto& config = std::get<ServerConfig>(*parsed);
  EXPECT_EQ(config.model_repository, "/mnt/models");
  EXPECT_EQ(config.grpc.port, 9000);
  EXPECT_EQ(config.http.port, 8080);
}

TEST(CommandLine, AddressesPortsAndSwitchesBelongToTheirServer) {
  const ServerConfig config =
      Serve({"--grpc-address", "127.0.0.1", "--grpc-port", "0", "--http-address=::1",
             "--http-port=1", "--metrics-address", "10.0.0.1", "--metrics-port", "65535",
             "--allow-http=false", "--allow-metrics", "false"});
  EXPECT_EQ(config.grpc.address, "127.0.0.1");
  EXPECT_EQ(config.grpc.port, 0);
  EXPECT_TRUE(config.grpc.enabled);
  EXPECT_EQ(config.http.address, "::1");
  EXPECT_EQ(config.http.port, 1);
  EXPECT_FALSE(config.http.enabled);
  EXPECT_EQ(config.metrics.address, "10.0.0.1");
  EXPECT_EQ(config.metrics.port, 65535);
  EXPECT_FALSE(config.metrics.enabled);
}

TEST(CommandLine, ADaemonThatListensNowhereIsRefused) {
  EXPECT_THAT(Refusal({"--allow-grpc=false", "--allow-http=false", "--allow-metrics=false"}),
              HasSubstr("--allow-grpc, --allow-http and --allow-metrics are all false"));
  Serve({"--allow-grpc=false", "--allow-http=false"});
}

TEST(CommandLine, ASwitchThatStandsAloneIsOn) {
  const ServerConfig config = Serve({"--exit-on-error", "--allow-grpc", "--threads", "2"});
  EXPECT_TRUE(config.exit_on_error);
  EXPECT_TRUE(config.grpc.enabled);
  EXPECT_EQ(config.threads, 2);
}

TEST(CommandLine, SecondsMayHaveFractions) {
  EXPECT_EQ(Serve({"--drain-timeout", "1.5"}).drain_timeout, milliseconds(1500));
  EXPECT_EQ(Serve({"--exit-timeout-secs=7"}).drain_timeout, milliseconds(7000));
  EXPECT_EQ(Serve({"--drain-delay=0.25"}).drain_delay, milliseconds(250));
  EXPECT_EQ(Serve({"--drain-timeout=0"}).drain_timeout, milliseconds(0));
}

TEST(CommandLine, ComputeLimitsAreRead) {
  EXPECT_EQ(Serve({}).precision, Precision::kF32);
  const ServerConfig config =
      Serve({"--cpu", "avx2", "--precision", "f32_strict", "--default-max-batch-size", "0",
             "--max-queue", "17", "--max-message-bytes", "1024"});
  EXPECT_EQ(config.isa, Isa::kAvx2);
  EXPECT_EQ(config.precision, Precision::kF32Strict);
  EXPECT_EQ(config.default_max_batch_size, 0);
  EXPECT_EQ(config.max_queue, 17);
  EXPECT_EQ(config.max_message_bytes, 1024);
}

TEST(CommandLine, MemoryIsToldInBytesOrInPowersOf1024) {
  EXPECT_EQ(Serve({"--max-request-memory", "4096"}).max_request_memory, 4096u);
  EXPECT_EQ(Serve({"--max-request-memory=64K"}).max_request_memory, uint64_t{64} << 10);
  EXPECT_EQ(Serve({"--max-request-memory=512M"}).max_request_memory, uint64_t{512} << 20);
  EXPECT_EQ(Serve({"--max-request-memory=3G"}).max_request_memory, uint64_t{3} << 30);
  for (const char* wrong : {"-1", "much", "1.5G", "7X", "99999999999999999999"}) {
    EXPECT_THAT(Refusal({std::string("--max-request-memory=") + wrong}),
                HasSubstr("--max-request-memory"))
        << wrong;
  }
}

TEST(CommandLine, TheLogLevelComesFromOneKindOfFlag) {
  EXPECT_EQ(Serve({"--log-level", "debug"}).log_level, LogLevel::kDebug);
  EXPECT_EQ(Serve({"--log-level=off"}).log_level, LogLevel::kOff);
  EXPECT_EQ(Serve({"--log-verbose", "0"}).log_level, LogLevel::kInfo);
  EXPECT_EQ(Serve({"--log-verbose", "1"}).log_level, LogLevel::kDebug);
  EXPECT_EQ(Serve({"--log-verbose", "6"}).log_level, LogLevel::kTrace);
  EXPECT_EQ(Serve({"--log-info=false"}).log_level, LogLevel::kWarning);
  EXPECT_EQ(Serve({"--log-info=false", "--log-warning=false"}).log_level, LogLevel::kError);
  EXPECT_EQ(Serve({"--log-info=0", "--log-warning=0", "--log-error=0"}).log_level, LogLevel::kOff);
  EXPECT_THAT(Refusal({"--log-level=info", "--log-verbose=1"}), HasSubstr("--log-verbose"));
}

TEST(CommandLine, TheLogFormatKnowsTritonsNames) {
  EXPECT_EQ(Serve({"--log-format=json"}).log_format, LogFormat::kJson);
  EXPECT_EQ(Serve({"--log-format=default"}).log_format, LogFormat::kText);
  EXPECT_EQ(Serve({"--log-format=ISO8601"}).log_format, LogFormat::kText);
  EXPECT_THAT(Refusal({"--log-format=xml"}), HasSubstr("--log-format"));
}

TEST(CommandLine, TheRepositoryIsRequired) {
  const StatusOr<Invocation> parsed = Parse({"--threads", "2"});
  ASSERT_FALSE(parsed.ok());
  EXPECT_THAT(Message(parsed.status()), HasSubstr("--model-repository"));
  EXPECT_THAT(Message(Parse({}).status()), HasSubstr("--model-repository is required"));
  EXPECT_FALSE(Parse({"--model-repository="}).ok());
}

TEST(CommandLine, AWrongValueIsRefusedWithTheFlagsName) {
  EXPECT_THAT(Refusal({"--grpc-port", "65536"}), HasSubstr("--grpc-port"));
  EXPECT_THAT(Refusal({"--http-port", "-1"}), HasSubstr("--http-port"));
  EXPECT_THAT(Refusal({"--metrics-port", "metrics"}), HasSubstr("--metrics-port"));
  EXPECT_THAT(Refusal({"--threads", "many"}), HasSubstr("--threads"));
  EXPECT_THAT(Refusal({"--max-message-bytes", "0"}), HasSubstr("--max-message-bytes"));
  for (const char* wrong : {"nan", "inf", "-1", "soon"}) {
    EXPECT_THAT(Refusal({"--drain-timeout", wrong}), HasSubstr("--drain-timeout"));
    EXPECT_THAT(Refusal({"--drain-delay", wrong}), HasSubstr("--drain-delay"));
    EXPECT_FALSE(Parse({"health", "--timeout", wrong}).ok()) << wrong;
  }
  EXPECT_THAT(Refusal({"--allow-http", "perhaps"}), HasSubstr("--allow-http"));
  EXPECT_THAT(Refusal({"--cpu", "avx3"}), testing::AllOf(HasSubstr("--cpu"), HasSubstr("avx3")));
  EXPECT_THAT(Refusal({"--log-level", "loud"}), HasSubstr("--log-level"));
}

TEST(CommandLine, AnUnknownFlagOrWordIsRefusedByName) {
  EXPECT_THAT(Refusal({"--model-repositroy=/x"}), HasSubstr("--model-repositroy"));
  EXPECT_THAT(Refusal({"stray"}), HasSubstr("stray"));
  const StatusOr<Invocation> alone = Parse({"--bogus"});
  ASSERT_FALSE(alone.ok());
  EXPECT_THAT(Message(alone.status()), HasSubstr("--bogus"));
  EXPECT_THAT(Message(alone.status()), testing::Not(HasSubstr("--model-repository")));
  const StatusOr<Invocation> parsed = Parse({"run", "model.onnx"});
  ASSERT_FALSE(parsed.ok());
  EXPECT_THAT(Message(parsed.status()), HasSubstr("'run'"));
}

class TritonsFlags : public testing::TestWithParam<std::string> {};

TEST_P(TritonsFlags, AreRefusedByNameWithTheReasonWhenTheyMeanNothingHere) {
  for (const std::string& form : {GetParam() + "=1", GetParam()}) {
    EXPECT_THAT(Refusal({form}), testing::AllOf(HasSubstr("--" + form.substr(2, 5)),
                                                HasSubstr("no meaning here, since")))
        << form;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, TritonsFlags,
    testing::Values("--load-model", "--repository-poll-secs", "--model-load-thread-count",
                    "--grpc-infer-thread-count", "--grpc-use-ssl", "--grpc-keepalive-time",
                    "--grpc-restricted-protocol", "--metrics-interval-ms", "--metrics-config",
                    "--log-file", "--rate-limit", "--rate-limit-resource", "--cache-config",
                    "--allow-client-shm", "--trace-config", "--host-policy",
                    "--grpc-max-connection-age-grace", "--grpc-header-forward-pattern"));

TEST(CommandLine, OnlyOneModelControlModeExists) {
  Serve({"--model-control-mode=none"});
  EXPECT_THAT(Refusal({"--model-control-mode=explicit"}), HasSubstr("'explicit'"));
}

TEST(CommandLine, HelpNamesEveryFlagAndSubcommand) {
  for (const std::string flag : {"--help", "-h"}) {
    const StatusOr<Invocation> parsed = Parse({flag});
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    const std::string& text = std::get<PrintConfig>(*parsed).text;
    for (const char* word :
         {"--model-repository", "--model-store", "--grpc-port", "--allow-metrics", "--drain-delay",
          "--exit-timeout-secs", "--cpu", "--precision", "--triton-metrics", "--log-format",
          "serve", "health"}) {
      EXPECT_THAT(text, HasSubstr(word));
    }
    EXPECT_THAT(text, HasSubstr("2 s after"));
  }
}

TEST(CommandLine, VersionIsOneLine) {
  const StatusOr<Invocation> parsed = Parse({"--version"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(std::get<PrintConfig>(*parsed).text, testing::MatchesRegex("tandem [0-9.]+\n"));
}

TEST(CommandLine, HealthTakesAnAddress) {
  const StatusOr<Invocation> parsed = Parse({"health", "--addr", "127.0.0.1:9", "--timeout=0.5"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(std::get<HealthConfig>(*parsed).address, "127.0.0.1:9");
  EXPECT_EQ(std::get<HealthConfig>(*parsed).timeout, milliseconds(500));
  EXPECT_EQ(std::get<HealthConfig>(*Parse({"health"})).address, "127.0.0.1:8001");
  EXPECT_TRUE(std::holds_alternative<PrintConfig>(*Parse({"health", "--help"})));
  for (const char* wrong :
       {"localhost", ":8001", "localhost:", "localhost:0", "localhost:65536", "localhost:http"}) {
    EXPECT_FALSE(Parse({"health", "--addr", wrong}).ok()) << wrong;
  }
}

}  // namespace
}  // namespace tandem::server
