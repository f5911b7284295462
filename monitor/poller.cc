// One completion queue per round: all calls start together and the round ends when the last has ended.
#include "monitor/poller.h"

#include <grpcpp/grpcpp.h>

#include "spillway/v1/cluster.grpc.pb.h"
#include "spillway/v1/worker.grpc.pb.h"

namespace spillway::monitor {
namespace {

constexpr int kMaxReplyBytes = 1 << 20;
// gRPC's own back-off reaches two minutes; a worker that is back must be seen within a round or two.
constexpr int kReconnectMs = 500;

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMs);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kMaxReplyBytes);
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
}

template <typename Reply>
struct Call {
  grpc::ClientContext context;
  grpc::Status status;
  Reply reply;
  std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> reader;
};

}  // namespace

struct Poller::Impl {
  std::vector<std::unique_ptr<v1::Worker::Stub>> workers;
  std::unique_ptr<v1::Cluster::Stub> gateway;
};

Poller::Poller(const std::vector<WorkerTarget>& workers, const std::string& gateway_admin)
    : impl_(std::make_unique<Impl>()) {
  for (const WorkerTarget& target : workers)
    impl_->workers.push_back(v1::Worker::NewStub(MakeChannel(target.address)));
  if (!gateway_admin.empty()) impl_->gateway = v1::Cluster::NewStub(MakeChannel(gateway_admin));
}
Poller::~Poller() = default;

Sample Poller::Poll(std::chrono::milliseconds deadline) {
  const auto until = std::chrono::system_clock::now() + deadline;
  grpc::CompletionQueue queue;
  std::vector<Call<v1::DescribeReply>> calls(impl_->workers.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    calls[i].context.set_deadline(until);
    calls[i].reader = impl_->workers[i]->AsyncDescribe(&calls[i].context, v1::DescribeRequest(), &queue);
    calls[i].reader->Finish(&calls[i].reply, &calls[i].status, &calls[i]);
  }
  Call<v1::ClusterStatus> cluster;
  if (impl_->gateway) {
    cluster.context.set_deadline(until);
    cluster.reader = impl_->gateway->AsyncGetStatus(&cluster.context, v1::GetStatusRequest(), &queue);
    cluster.reader->Finish(&cluster.reply, &cluster.status, &cluster);
  }
  // Every call has a deadline, so the queue drains; nothing else is ever put into it.
  queue.Shutdown();
  void* tag = nullptr;
  for (bool ok = false; queue.Next(&tag, &ok);) {
  }

  Sample sample;
  for (Call<v1::DescribeReply>& call : calls) {
    WorkerSample& worker = sample.workers.emplace_back();
    worker.reachable = call.status.ok();
    worker.gone = call.status.error_code() == grpc::StatusCode::UNAVAILABLE;
    worker.error = call.status.error_message();
    if (worker.reachable) worker.reply = std::move(call.reply);
  }
  if (impl_->gateway) {
    sample.gateway_up = cluster.status.ok();
    sample.gateway_error = cluster.status.error_message();
    if (sample.gateway_up) sample.cluster = std::move(cluster.reply);
  }
  return sample;
}

}  // namespace spillway::monitor
