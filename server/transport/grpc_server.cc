#include "server/transport/grpc_server.h"

#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "server/transport/address.h"
#include "server/transport/health_service.h"
#include "server/transport/inference_service.h"

namespace tandem::server {
namespace {

// Reflection is gRPC's own service, which takes a thread per stream.
constexpr int kReflectionThreads = 8;

constexpr std::chrono::milliseconds kCallPoll{1};
// How long without a new call is quiet, how often that is looked at, and how long it may take:
// longer than clients usually wait before they try again.
constexpr std::chrono::milliseconds kQuiet{250};
constexpr std::chrono::milliseconds kQuietPoll{5};
constexpr std::chrono::milliseconds kLongestQuiet{1000};

// What answers that are written late have to arrive before their connection is cut.
constexpr std::chrono::milliseconds kCloseTime{250};

void PrepareLibrary() {
  static const bool once = [] {
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    return true;
  }();
  static_cast<void>(once);
}

void SetLimits(const GrpcServerOptions& options, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  builder.SetMaxSendMessageSize(options.max_message_bytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_concurrent_streams);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, options.max_metadata_bytes);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  grpc::ResourceQuota quota("tandem");
  quota.SetMaxThreads(kReflectionThreads);
  if (options.memory_quota_bytes > 0) quota.Resize(options.memory_quota_bytes);
  builder.SetResourceQuota(quota);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
}

// Begins the shutdown of a server without waiting for its end, which grpc::Server cannot do. The
// server's own Shutdown must have returned before this ends.
class ShutdownNotice {
 public:
  explicit ShutdownNotice(grpc::Server& server)
      : queue_(grpc_completion_queue_create_for_next({})) {
    grpc_server_shutdown_and_notify(server.c_server(), queue_, this);
  }
  ~ShutdownNotice() {
    Next();  // the notice
    grpc_completion_queue_shutdown(queue_);
    Next();  // the end of the queue
    grpc_completion_queue_destroy(queue_);
  }
  ShutdownNotice(const ShutdownNotice&) = delete;
  ShutdownNotice& operator=(const ShutdownNotice&) = delete;

 private:
  void Next() { grpc_completion_queue_next(queue_, gpr_inf_future(GPR_CLOCK_REALTIME), nullptr); }

  grpc_completion_queue* const queue_;
};

}  // namespace

class GrpcServer::Impl {
 public:
  Impl(Backend& backend, const Clock& clock) : inference_(backend, clock), health_(backend) {}
  ~Impl() { Shutdown(std::chrono::milliseconds(0)); }

  Status Listen(const GrpcServerOptions& options) {
    RETURN_IF_ERROR(CheckCanListen(options.address, options.port));
    PrepareLibrary();
    grpc::ServerBuilder builder;
    SetLimits(options, builder);
    builder.AddListeningPort(HostPort(options.address, options.port),
                             grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&inference_);
    builder.RegisterService(&health_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) {
      return Unavailable("cannot listen on {}", HostPort(options.address, options.port));
    }
    return absl::OkStatus();
  }

  void Shutdown(std::chrono::milliseconds timeout) {
    if (server_ == nullptr) return;
    health_.EndWatches();
    const auto end = std::chrono::steady_clock::now() + timeout;
    AnswerGate& gate = inference_.gate();
    gate.Close();
    AwaitCalls(std::min(end, std::chrono::steady_clock::now() + kLongestQuiet),
               [&gate] { return gate.waiting(); });
    AwaitQuiet(end);
    // An idle client does not read its GOAWAY, and a call that it sends then is CANCELLED, not
    // UNAVAILABLE: connections are cut as soon as the refusals have left. Only where other answers
    // leave as late as they do is there time for them to arrive.
    const bool only_refusals = inference_.open_calls() <= gate.waiting();
    {
      // From here on nobody listens and every connection has its GOAWAY.
      const ShutdownNotice notice(*server_);
      gate.Open();
      AwaitCalls(end, [] { return 0; });
      server_->Shutdown(std::chrono::system_clock::now() +
                        (only_refusals ? std::chrono::milliseconds(0) : kCloseTime));
    }
    server_.reset();
  }

  int port() const { return port_; }
  HealthService& health() { return health_; }

 private:
  // Returns when no more calls than `rest` says are open.
  template <typename Rest>
  void AwaitCalls(std::chrono::steady_clock::time_point end, const Rest& rest) const {
    while (inference_.open_calls() > rest() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(kCallPoll);
    }
  }

  // Returns when no call has come for a while: whoever is there waits at the gate, and what was
  // answered has arrived.
  void AwaitQuiet(std::chrono::steady_clock::time_point end) const {
    const auto start = std::chrono::steady_clock::now();
    const auto last = std::min(end, start + kLongestQuiet);
    uint64_t seen = inference_.calls();
    for (auto now = start, since = start; now < last && now < since + kQuiet;
         now = std::chrono::steady_clock::now()) {
      if (const uint64_t calls = inference_.calls(); calls != seen) {
        seen = calls;
        since = now;
      }
      std::this_thread::sleep_for(kQuietPoll);
    }
  }

  InferenceService inference_;
  HealthService health_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Listen(const GrpcServerOptions& options,
                                                         Backend& backend, const Clock& clock) {
  auto impl = std::make_unique<Impl>(backend, clock);
  RETURN_IF_ERROR(impl->Listen(options));
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(impl)));
}

GrpcServer::GrpcServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GrpcServer::~GrpcServer() = default;

int GrpcServer::port() const { return impl_->port(); }
void GrpcServer::PublishHealth() { impl_->health().Publish(); }
void GrpcServer::Shutdown(std::chrono::milliseconds timeout) { impl_->Shutdown(timeout); }

Status CheckHealth(const std::string& address, std::chrono::milliseconds timeout) {
  using grpc::health::v1::HealthCheckResponse;
  const auto stub = grpc::health::v1::Health::NewStub(
      grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  HealthCheckResponse response;
  const grpc::Status status = stub->Check(&context, {}, &response);
  if (!status.ok()) {
    return MakeStatus(static_cast<absl::StatusCode>(status.error_code()),
                      fmt::format("{}: {}", address, status.error_message()));
  }
  if (response.status() == HealthCheckResponse::SERVING) return absl::OkStatus();
  return Unavailable("{}: {}", address, HealthCheckResponse::ServingStatus_Name(response.status()));
}

}  // namespace tandem::server
