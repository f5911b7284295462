// A Forward stream without a client's manners: sends any frame and waits for any answer.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "spillway/v1/worker.grpc.pb.h"

namespace spillway::test {

class RawStream {
 public:
  explicit RawStream(const std::string& address)
      : stub_(v1::Worker::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))),
        call_(stub_->Forward(&context_)) {}
  ~RawStream() {
    context_.TryCancel();
    if (!finished_) call_->Finish();
  }

  bool Write(const v1::ClientFrame& frame) { return call_->Write(frame); }
  bool Hello(uint64_t epoch) {
    v1::ClientFrame frame;
    frame.mutable_hello()->set_epoch(epoch);
    v1::WorkerFrame answer;
    return Write(frame) && Read(&answer) && answer.has_hello();
  }
  bool Read(v1::WorkerFrame* frame) { return call_->Read(frame); }
  // Reads to the end.
  grpc::Status End() {
    v1::WorkerFrame frame;
    while (call_->Read(&frame)) {
    }
    finished_ = true;
    return call_->Finish();
  }
  // Sends `forward` and returns its reply.
  v1::ForwardReply Ask(const v1::Forward& forward) {
    v1::ClientFrame frame;
    *frame.mutable_forward() = forward;
    Write(frame);
    return NextReply();
  }
  v1::ForwardReply NextReply() {
    v1::WorkerFrame answer;
    if (!Read(&answer)) return {};
    return answer.reply();
  }

 private:
  std::unique_ptr<v1::Worker::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ClientFrame, v1::WorkerFrame>> call_;
  bool finished_ = false;
};

}  // namespace spillway::test
