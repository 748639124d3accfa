#include "server/transport/grpc_server.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <thread>

#include "grpc/health/v1/health.grpc.pb.h"
#include "grpc_service.grpc.pb.h"
#include "server/transport/address.h"
#include "tests/server/transport/fake_backend.h"

namespace tandem::server {
namespace {

using grpc::StatusCode;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using inference::GRPCInferenceService;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GrpcServerTest : public ::testing::Test {
 protected:
  GrpcServerTest() {
    backend_.Add(MakeServed(
        "m", EchoInfo({{"a", DType::kFloat}, {"b", DType::kInt64}}, {graph::Dim::Symbol("N"), 2}),
        8));
    auto server = GrpcServer::Listen({.address = "127.0.0.1"}, backend_, clock_);
    CHECK(server.ok(), "{}", Message(server.status()));
    server_ = *std::move(server);
    address_ = HostPort("127.0.0.1", server_->port());
    channel_ = grpc::CreateChannel(address_, grpc::InsecureChannelCredentials());
    stub_ = GRPCInferenceService::NewStub(channel_);
    health_ = grpc::health::v1::Health::NewStub(channel_);
  }

  static inference::ModelInferRequest GoodRequest() {
    inference::ModelInferRequest request;
    request.set_model_name("m");
    request.set_id("id-7");
    const std::vector<std::pair<std::string, std::string>> inputs = {{"xa", "FP32"},
                                                                     {"xb", "INT64"}};
    for (const auto& [name, datatype] : inputs) {
      auto& input = *request.add_inputs();
      input.set_name(name);
      input.set_datatype(datatype);
      input.add_shape(1);
      input.add_shape(2);
    }
    request.add_raw_input_contents("abcdefgh");
    request.add_raw_input_contents("0123456789abcdef");
    return request;
  }

  grpc::Status Infer(const inference::ModelInferRequest& request) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + seconds(20));
    response_.Clear();
    grpc::Status status = stub_->ModelInfer(&context, request, &response_);
    pushback_ = PushbackOf(context);
    return status;
  }

  // What the client of a call that has ended was told of a retry; "": nothing.
  static std::string PushbackOf(const grpc::ClientContext& context) {
    const auto& trailers = context.GetServerTrailingMetadata();
    const auto found = trailers.find("grpc-retry-pushback-ms");
    return found == trailers.end() ? "" : std::string(found->second.data(), found->second.size());
  }

  int Unserved(UnservedReason reason) const {
    return backend_.unserved[static_cast<size_t>(reason)];
  }

  // Calls a method with three bytes that begin a field and do not end it.
  grpc::Status SendGarbage(const std::string& method,
                           const std::string& service = "/inference.GRPCInferenceService/") {
    const grpc::Slice slice(std::string("\x0a\xff\xff"));
    grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + seconds(20));
    std::promise<grpc::Status> done;
    stub.UnaryCall(&context, service + method, {}, &request, &response,
                   [&done](grpc::Status status) { done.set_value(std::move(status)); });
    return done.get_future().get();
  }

  // Waits until the backend holds `count` requests.
  void AwaitHeld(size_t count) {
    while (backend_.held() < count) std::this_thread::yield();
  }

  HealthCheckResponse::ServingStatus Check(const std::string& service) {
    grpc::ClientContext context;
    HealthCheckRequest request;
    request.set_service(service);
    HealthCheckResponse response;
    const grpc::Status status = health_->Check(&context, request, &response);
    if (status.error_code() == StatusCode::NOT_FOUND) return HealthCheckResponse::SERVICE_UNKNOWN;
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.status();
  }

  FakeBackend backend_;
  SteadyClock clock_;
  std::unique_ptr<GrpcServer> server_;
  std::string address_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<GRPCInferenceService::Stub> stub_;
  std::unique_ptr<grpc::health::v1::Health::Stub> health_;
  inference::ModelInferResponse response_;
  std::string pushback_;
};

TEST_F(GrpcServerTest, InferEchoesIdAndAnswersRaw) {
  const grpc::Status status = Infer(GoodRequest());
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response_.id(), "id-7");
  EXPECT_EQ(response_.model_name(), "m");
  EXPECT_EQ(response_.model_version(), "3");
  EXPECT_THAT(response_.raw_output_contents(), ElementsAre("abcdefgh", "0123456789abcdef"));
  EXPECT_EQ(response_.outputs(1).name(), "yb");
  EXPECT_EQ(response_.outputs(1).datatype(), "INT64");
}

TEST_F(GrpcServerTest, InferReturnsRequestedOutputsInTheirOrder) {
  inference::ModelInferRequest request = GoodRequest();
  request.add_outputs()->set_name("yb");
  request.add_outputs()->set_name("ya");
  ASSERT_TRUE(Infer(request).ok());
  EXPECT_EQ(response_.outputs(0).name(), "yb");
  EXPECT_EQ(response_.outputs(1).name(), "ya");
}

TEST_F(GrpcServerTest, UnknownModelsAndVersionsAreTheSameErrorOnEveryCall) {
  inference::ModelInferRequest request = GoodRequest();
  request.set_model_name("nobody");
  EXPECT_EQ(Infer(request).error_code(), StatusCode::NOT_FOUND);
  request = GoodRequest();
  request.set_model_version("4");
  EXPECT_EQ(Infer(request).error_code(), StatusCode::NOT_FOUND);
  request.set_model_version("abc");
  EXPECT_EQ(Infer(request).error_code(), StatusCode::INVALID_ARGUMENT);
  {
    grpc::ClientContext context;
    inference::ModelReadyRequest ready;
    ready.set_name("");
    inference::ModelReadyResponse response;
    EXPECT_EQ(stub_->ModelReady(&context, ready, &response).error_code(), StatusCode::NOT_FOUND);
  }
  {
    grpc::ClientContext context;
    inference::ModelMetadataRequest metadata;
    metadata.set_name("nobody");
    inference::ModelMetadataResponse response;
    EXPECT_EQ(stub_->ModelMetadata(&context, metadata, &response).error_code(),
              StatusCode::NOT_FOUND);
  }
  {
    grpc::ClientContext context;
    inference::ModelConfigRequest config;
    config.set_name("nobody");
    inference::ModelConfigResponse response;
    EXPECT_EQ(stub_->ModelConfig(&context, config, &response).error_code(), StatusCode::NOT_FOUND);
  }
  EXPECT_EQ(Unserved(UnservedReason::kUnknownModel), 5);
  EXPECT_EQ(Unserved(UnservedReason::kBadVersion), 1);
}

TEST_F(GrpcServerTest, ARequestThatReachesNoModelIsCountedOnceByItsReason) {
  inference::ModelInferRequest request = GoodRequest();
  for (const char* name : {"broken", "loading"}) {
    request.set_model_name(name);
    EXPECT_EQ(Infer(request).error_code(), StatusCode::UNAVAILABLE);
  }
  EXPECT_EQ(Unserved(UnservedReason::kModelNotReady), 2);
  request = GoodRequest();
  request.set_model_version("abc");
  EXPECT_EQ(Infer(request).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Unserved(UnservedReason::kBadVersion), 1);
  EXPECT_EQ(SendGarbage("ModelInfer").error_code(), StatusCode::INTERNAL);
  EXPECT_EQ(Unserved(UnservedReason::kUnreadable), 1);
  EXPECT_EQ(Unserved(UnservedReason::kUnknownModel), 0);
  grpc::ClientContext context;
  inference::ModelReadyRequest ready;
  ready.set_name("broken");
  inference::ModelReadyResponse response;
  EXPECT_TRUE(stub_->ModelReady(&context, ready, &response).ok());
  EXPECT_EQ(Unserved(UnservedReason::kModelNotReady), 2);  // not ready is its answer
  const ServedModelRef model = *backend_.Find("m", "");
  EXPECT_EQ(model->metrics->received.value(), 0u);
}

TEST_F(GrpcServerTest, BytesThatAreNoMessageAreTheSameErrorOnEveryCall) {
  for (const char* method : {"ServerLive", "ServerReady", "ServerMetadata", "ModelReady",
                             "ModelMetadata", "ModelConfig", "ModelInfer", "RepositoryIndex"}) {
    const grpc::Status status = SendGarbage(method);
    EXPECT_EQ(status.error_code(), StatusCode::INTERNAL) << method;
    EXPECT_EQ(status.error_message(),
              std::string("the 3 bytes that came are no ") + method + "Request");
  }
  const grpc::Status health = SendGarbage("Check", "/grpc.health.v1.Health/");
  EXPECT_EQ(health.error_code(), StatusCode::INTERNAL);
  EXPECT_EQ(health.error_message(), "the 3 bytes that came are no HealthCheckRequest");
}

TEST_F(GrpcServerTest, ABadRequestIsCountedAndTheNextOneIsServed) {
  const ServedModelRef model = *backend_.Find("m", "");
  inference::ModelInferRequest request = GoodRequest();
  request.mutable_inputs(0)->set_datatype("FP64");
  const grpc::Status status = Infer(request);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(),
            "model 'm' version 3: input 'xa': datatype 'FP64' came; FP32 was expected");
  const auto& refused =
      model->metrics->failed[static_cast<size_t>(FailureReason::kInvalidArgument)];
  EXPECT_EQ(refused.value(), 1u);
  EXPECT_EQ(model->metrics->received.value(), 1u);
  EXPECT_TRUE(Infer(GoodRequest()).ok());
}

TEST_F(GrpcServerTest, ARefusalTellsWhenToRetryWhereThatHelps) {
  backend_.mode = FakeBackend::Mode::kRefuse;
  backend_.refusal = WithRetryAfter(Unavailable("the queue is full"), milliseconds(100));
  EXPECT_EQ(Infer(GoodRequest()).error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(pushback_, "100");
  inference::ModelInferRequest request = GoodRequest();
  request.set_model_name("loading");
  EXPECT_EQ(Infer(request).error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(pushback_, "1000");
  for (const ServerState state : {ServerState::kLoading, ServerState::kServing}) {
    backend_.state_ = state;
    request.set_model_name("broken");
    EXPECT_EQ(Infer(request).error_code(), StatusCode::UNAVAILABLE);
    EXPECT_EQ(pushback_, "");
  }
  backend_.refusal = ResourceExhausted("too large");
  EXPECT_EQ(Infer(GoodRequest()).error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(pushback_, "");
}

TEST_F(GrpcServerTest, EveryCallThatNamesALoadingModelTellsWhenToRetry) {
  const auto expect_pushback = [](const grpc::ClientContext& context, const grpc::Status& status) {
    EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE);
    EXPECT_EQ(PushbackOf(context), "1000");
  };
  {
    grpc::ClientContext context;
    inference::ModelMetadataRequest request;
    request.set_name("loading");
    inference::ModelMetadataResponse response;
    expect_pushback(context, stub_->ModelMetadata(&context, request, &response));
  }
  {
    grpc::ClientContext context;
    inference::ModelConfigRequest request;
    request.set_name("loading");
    inference::ModelConfigResponse response;
    expect_pushback(context, stub_->ModelConfig(&context, request, &response));
  }
}

TEST_F(GrpcServerTest, AnExceptionIsInternalAndSaysNothingOfTheHost) {
  backend_.mode = FakeBackend::Mode::kThrow;
  const grpc::Status status = Infer(GoodRequest());
  EXPECT_EQ(status.error_code(), StatusCode::INTERNAL);
  EXPECT_THAT(status.error_message(), ::testing::Not(HasSubstr("secret")));
  backend_.mode = FakeBackend::Mode::kRun;
  EXPECT_TRUE(Infer(GoodRequest()).ok());
}

TEST_F(GrpcServerTest, ACancelledCallCancelsTheRequest) {
  backend_.mode = FakeBackend::Mode::kHold;
  grpc::ClientContext context;
  std::future<grpc::Status> call = std::async(
      std::launch::async, [&] { return stub_->ModelInfer(&context, GoodRequest(), &response_); });
  AwaitHeld(1);
  context.TryCancel();
  EXPECT_EQ(call.get().error_code(), StatusCode::CANCELLED);
  // The held request was answered by its Cancel; a second answer would be a fault of the reactor.
  backend_.Release(Internal("late"));
}

TEST_F(GrpcServerTest, ACancelledCallReachesTheRunThatSubmitComputes) {
  backend_.mode = FakeBackend::Mode::kInside;
  grpc::ClientContext context;
  std::future<grpc::Status> call = std::async(
      std::launch::async, [&] { return stub_->ModelInfer(&context, GoodRequest(), &response_); });
  while (!backend_.inside) std::this_thread::yield();
  context.TryCancel();
  EXPECT_EQ(call.get().error_code(), StatusCode::CANCELLED);
  const auto end = clock_.Now() + seconds(20);
  while (backend_.inside && clock_.Now() < end) std::this_thread::yield();
  EXPECT_FALSE(backend_.inside);
}

TEST_F(GrpcServerTest, TheCallsDeadlineIsTheRequests) {
  grpc::ClientContext context;
  const auto before = clock_.Now();
  context.set_deadline(std::chrono::system_clock::now() + seconds(15));
  ASSERT_TRUE(stub_->ModelInfer(&context, GoodRequest(), &response_).ok());
  EXPECT_GT(backend_.last_deadline, before + seconds(14));
  EXPECT_LT(backend_.last_deadline, clock_.Now() + seconds(16));
  grpc::ClientContext open;
  ASSERT_TRUE(stub_->ModelInfer(&open, GoodRequest(), &response_).ok());
  EXPECT_EQ(backend_.last_deadline, Clock::TimePoint::max());
}

TEST_F(GrpcServerTest, MetadataAndConfigAnswer) {
  grpc::ClientContext context;
  inference::ServerMetadataResponse server;
  ASSERT_TRUE(stub_->ServerMetadata(&context, {}, &server).ok());
  EXPECT_EQ(server.name(), "tandem");
  EXPECT_THAT(server.extensions(), ElementsAre("binary_tensor_data", "model_configuration"));
  grpc::ClientContext context2;
  inference::ModelMetadataRequest request;
  request.set_name("m");
  inference::ModelMetadataResponse metadata;
  ASSERT_TRUE(stub_->ModelMetadata(&context2, request, &metadata).ok());
  EXPECT_THAT(metadata.inputs(1).shape(), ElementsAre(-1, 2));
  grpc::ClientContext context3;
  inference::ModelConfigRequest config_request;
  config_request.set_name("m");
  inference::ModelConfigResponse config;
  ASSERT_TRUE(stub_->ModelConfig(&context3, config_request, &config).ok());
  EXPECT_THAT(config.config().input(1).dims(), ElementsAre(2));
  EXPECT_EQ(config.config().instance_group(0).count(), 4);
}

TEST_F(GrpcServerTest, ReadinessFollowsTheBackend) {
  const auto ready = [this] {
    grpc::ClientContext context;
    inference::ServerReadyResponse response;
    EXPECT_TRUE(stub_->ServerReady(&context, {}, &response).ok());
    return response.ready();
  };
  const auto model_ready = [this](const std::string& name) {
    grpc::ClientContext context;
    inference::ModelReadyRequest request;
    request.set_name(name);
    inference::ModelReadyResponse response;
    EXPECT_TRUE(stub_->ModelReady(&context, request, &response).ok());
    return response.ready();
  };
  EXPECT_TRUE(ready());
  EXPECT_TRUE(model_ready("m"));
  EXPECT_FALSE(model_ready("loading"));
  backend_.state_ = ServerState::kDraining;
  EXPECT_FALSE(ready());
  EXPECT_FALSE(model_ready("m"));
  grpc::ClientContext context;
  inference::ServerLiveResponse live;
  EXPECT_TRUE(stub_->ServerLive(&context, {}, &live).ok());
  EXPECT_TRUE(live.live());
}

TEST_F(GrpcServerTest, RepositoryIndexListsModelsAndTheirStates) {
  const auto index = [this](bool only_ready) {
    grpc::ClientContext context;
    inference::RepositoryIndexRequest request;
    request.set_ready(only_ready);
    inference::RepositoryIndexResponse response;
    EXPECT_TRUE(stub_->RepositoryIndex(&context, request, &response).ok());
    return response;
  };
  ASSERT_EQ(index(false).models_size(), 2);
  EXPECT_EQ(index(false).models(1).state(), "LOADING");
  ASSERT_EQ(index(true).models_size(), 1);
  EXPECT_EQ(index(true).models(0).name(), "m");
}

TEST_F(GrpcServerTest, CallsThatAreNotOfferedNameThemselves) {
  grpc::ClientContext context;
  inference::ModelStatisticsResponse response;
  const grpc::Status status = stub_->ModelStatistics(&context, {}, &response);
  EXPECT_EQ(status.error_code(), StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(status.error_message(), "this server does not offer ModelStatistics");
  grpc::ClientContext stream_context;
  const auto stream = stub_->ModelStreamInfer(&stream_context);
  EXPECT_EQ(stream->Finish().error_code(), StatusCode::UNIMPLEMENTED);
}

TEST_F(GrpcServerTest, HealthKnowsTheServerAndEachModel) {
  EXPECT_EQ(Check(""), HealthCheckResponse::SERVING);
  EXPECT_EQ(Check("inference.GRPCInferenceService"), HealthCheckResponse::SERVING);
  EXPECT_EQ(Check("m"), HealthCheckResponse::SERVING);
  EXPECT_EQ(Check("loading"), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Check("nobody"), HealthCheckResponse::SERVICE_UNKNOWN);
  EXPECT_TRUE(CheckHealth(address_, seconds(10)).ok());
  backend_.state_ = ServerState::kDraining;
  EXPECT_EQ(Check(""), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Check("m"), HealthCheckResponse::NOT_SERVING);
  EXPECT_THAT(std::string(Message(CheckHealth(address_, seconds(10)))), HasSubstr("NOT_SERVING"));
}

TEST_F(GrpcServerTest, WatchSendsTheStatusNowAtEachChangeAndEndsAtShutdown) {
  backend_.state_ = ServerState::kLoading;
  grpc::ClientContext context;
  const auto watch = health_->Watch(&context, HealthCheckRequest());
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  server_->PublishHealth();  // No change: no message.
  backend_.state_ = ServerState::kServing;
  server_->PublishHealth();
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  backend_.state_ = ServerState::kDraining;
  server_->Shutdown(seconds(20));
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_FALSE(watch->Read(&response));
  EXPECT_EQ(watch->Finish().error_code(), StatusCode::UNAVAILABLE);
}

TEST_F(GrpcServerTest, WatchOfAnUnknownServiceSaysSoAndSurvivesACancelledWatcher) {
  grpc::ClientContext context;
  HealthCheckRequest request;
  request.set_service("nobody");
  auto watch = health_->Watch(&context, request);
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVICE_UNKNOWN);
  context.TryCancel();
  EXPECT_EQ(watch->Finish().error_code(), StatusCode::CANCELLED);
  server_->PublishHealth();
  EXPECT_EQ(Check(""), HealthCheckResponse::SERVING);
}

TEST_F(GrpcServerTest, ShutdownLetsCallsUnderWayFinish) {
  backend_.mode = FakeBackend::Mode::kHold;
  std::future<grpc::Status> call =
      std::async(std::launch::async, [&] { return Infer(GoodRequest()); });
  AwaitHeld(1);
  std::thread stop([&] { server_->Shutdown(seconds(20)); });
  backend_.Release(InferReply{});
  EXPECT_TRUE(call.get().ok());
  stop.join();
}

TEST_F(GrpcServerTest, ShutdownWaitsForCallsLongerThanForConnectionsToClose) {
  backend_.mode = FakeBackend::Mode::kHold;
  std::future<grpc::Status> call =
      std::async(std::launch::async, [&] { return Infer(GoodRequest()); });
  AwaitHeld(1);
  std::thread stop([&] { server_->Shutdown(seconds(20)); });
  while (CheckCanListen("127.0.0.1", server_->port()).code() == absl::StatusCode::kUnavailable) {
    std::this_thread::yield();
  }
  // Nobody listens any more. A server that did not wait would cut the connection long before this.
  EXPECT_EQ(call.wait_for(milliseconds(1500)), std::future_status::timeout);
  backend_.Release(InferReply{});
  EXPECT_TRUE(call.get().ok());
  stop.join();
}

TEST_F(GrpcServerTest, ClientsThatRetryUntilTheEndAreRefusedAndNeverCancelled) {
  backend_.mode = FakeBackend::Mode::kRefuse;
  backend_.refusal = Unavailable("the server is shutting down");
  std::atomic<bool> stop{false};
  std::atomic<int> refused{0};
  std::atomic<int> other{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&, i] {
      grpc::ChannelArguments own;  // a connection of its own
      own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      const auto stub = GRPCInferenceService::NewStub(
          grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), own));
      while (!stop) {
        grpc::ClientContext context;
        inference::ModelInferResponse response;
        const grpc::Status status = stub->ModelInfer(&context, GoodRequest(), &response);
        ++(status.error_code() == StatusCode::UNAVAILABLE ? refused : other);
        std::this_thread::sleep_for(milliseconds(12 * i));
      }
    });
  }
  while (refused < 100) std::this_thread::yield();
  server_->Shutdown(seconds(20));
  stop = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(other, 0);
}

TEST_F(GrpcServerTest, ShutdownCancelsWhatTakesTooLong) {
  backend_.mode = FakeBackend::Mode::kHold;
  std::future<grpc::Status> call =
      std::async(std::launch::async, [&] { return Infer(GoodRequest()); });
  AwaitHeld(1);
  server_->Shutdown(milliseconds(20));
  EXPECT_FALSE(call.get().ok());
}

TEST_F(GrpcServerTest, ASecondServerOnThePortIsRefusedWithTheAddress) {
  const auto second =
      GrpcServer::Listen({.address = "127.0.0.1", .port = server_->port()}, backend_, clock_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(Message(second.status()),
            fmt::format("cannot listen on {}: Address already in use", address_));
}

TEST_F(GrpcServerTest, MessagesAndMetadataBeyondTheLimitsAreRefused) {
  auto small =
      GrpcServer::Listen({.address = "127.0.0.1", .max_message_bytes = 1024}, backend_, clock_);
  ASSERT_TRUE(small.ok());
  const auto stub = GRPCInferenceService::NewStub(grpc::CreateChannel(
      HostPort("127.0.0.1", (*small)->port()), grpc::InsecureChannelCredentials()));
  inference::ModelInferRequest request = GoodRequest();
  request.mutable_raw_input_contents(0)->resize(2000);
  grpc::ClientContext context;
  EXPECT_EQ(stub->ModelInfer(&context, request, &response_).error_code(),
            StatusCode::RESOURCE_EXHAUSTED);
  grpc::ClientContext large;
  large.AddMetadata("large", std::string(64 * 1024, 'x'));
  inference::ServerLiveResponse live;
  EXPECT_EQ(stub->ServerLive(&large, {}, &live).error_code(), StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(GrpcServerTest, CompressedMessagesAreNotTaken) {
  grpc::ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  inference::ModelInferRequest request = GoodRequest();
  request.mutable_raw_input_contents(0)->assign(100'000, '\0');
  EXPECT_EQ(stub_->ModelInfer(&context, request, &response_).error_code(),
            StatusCode::UNIMPLEMENTED);
  EXPECT_TRUE(Infer(GoodRequest()).ok());
}

TEST(CheckHealth, SaysThatNobodyAnswers) {
  const Status status = CheckHealth("127.0.0.1:1", milliseconds(2000));
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(Message(status)), HasSubstr("127.0.0.1:1"));
}

TEST(Address, BracketsIpv6AndNamesBadHosts) {
  EXPECT_EQ(HostPort("::1", 80), "[::1]:80");
  EXPECT_EQ(HostPort("0.0.0.0", 8001), "0.0.0.0:8001");
  EXPECT_THAT(std::string(Message(CheckCanListen("no such host", 0))),
              HasSubstr("cannot listen on no such host:0"));
}

}  // namespace
}  // namespace tandem::server
