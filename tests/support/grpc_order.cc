// Tells TSan what gRPC promises: what happens before an operation is handed over happens before its
// completion, and what happens before a reaction is handed to another thread happens before it runs there.
// Debian's gRPC is not instrumented: without this every such hand-over looks like a race, and suppressions
// enough to silence that would silence misuse of a message that is with gRPC too. Nothing else is ordered: a
// race of ours is still one. A program's definitions stand before a library's, so these are linked into tests
// of the thread sanitizer and pass everything on.
#include <dlfcn.h>
#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>
#include <sanitizer/tsan_interface.h>

namespace {

// A new server's calls may arrive at a thread of gRPC that was there before it: for them, and so for every
// completion, what was done before the latest start of a server is done.
char server_started;

template <typename Function>
Function* Library(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

// NOLINTBEGIN(bugprone-reserved-identifier)
const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1"; }

// The end of a call's own record, which another thread of gRPC made; nothing of ours is in it or runs below.
const char* __tsan_default_suppressions() {
  return "race:CallbackCallTag::ContinueRunAfterInterception()::{lambda()#1}\n";
}
// NOLINTEND(bugprone-reserved-identifier)

void grpc_server_start(grpc_server* server) {
  static auto* const library = Library<decltype(grpc_server_start)>("grpc_server_start");
  __tsan_release(&server_started);
  library(server);
}

grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops, size_t nops, void* tag,
                                      void* reserved) {
  static auto* const library = Library<decltype(grpc_call_start_batch)>("grpc_call_start_batch");
  __tsan_release(tag);
  return library(call, ops, nops, tag, reserved);
}

// Reactors too get their completions from a queue of this kind.
grpc_event grpc_completion_queue_next(grpc_completion_queue* queue, gpr_timespec deadline, void* reserved) {
  static auto* const library = Library<decltype(grpc_completion_queue_next)>("grpc_completion_queue_next");
  const grpc_event event = library(queue, deadline, reserved);
  if (event.type == GRPC_OP_COMPLETE) {
    __tsan_acquire(event.tag);
    __tsan_acquire(&server_started);
  }
  return event;
}

grpc_event grpc_completion_queue_pluck(grpc_completion_queue* queue, void* tag, gpr_timespec deadline,
                                       void* reserved) {
  static auto* const library = Library<decltype(grpc_completion_queue_pluck)>("grpc_completion_queue_pluck");
  const grpc_event event = library(queue, tag, deadline, reserved);
  if (event.type == GRPC_OP_COMPLETE) __tsan_acquire(tag);
  return event;
}

}  // extern "C"

// The last of a call's conditions to be met schedules OnDone or OnCancel on gRPC's executor. Whoever met the
// others counted down the atomic that is loaded here; what the library counts down itself is added.
namespace grpc::internal {

void ServerCallbackCall::ScheduleOnDone(bool inline_ondone) {
  struct Hop final : ServerCallbackCall {
    explicit Hop(ServerCallbackCall* target) : call(target) {}
    ServerReactor* reactor() override { return call->reactor(); }
    void CallOnDone() override {
      __tsan_acquire(this);
      call->CallOnDone();
      delete this;
    }
    ServerCallbackCall* const call;
  };
  static auto* const library =
      Library<void(ServerCallbackCall*, bool)>("_ZN4grpc8internal18ServerCallbackCall14ScheduleOnDoneEb");
  callbacks_outstanding_.load(std::memory_order_acquire);
  Hop* const hop = new Hop(this);
  __tsan_release(hop);
  library(hop, inline_ondone);
}

void ServerCallbackCall::CallOnCancel(ServerReactor* reactor) {
  struct Hop final : ServerReactor {
    Hop(ServerCallbackCall* owner, ServerReactor* target) : call(owner), reactor(target) {}
    bool InternalInlineable() override { return reactor->InternalInlineable(); }
    void OnDone() override {}
    void OnCancel() override {
      __tsan_acquire(this);
      reactor->OnCancel();
      __tsan_release(&call->callbacks_outstanding_);
      delete this;
    }
    ServerCallbackCall* const call;
    ServerReactor* const reactor;
  };
  static auto* const library = Library<void(ServerCallbackCall*, ServerReactor*)>(
      "_ZN4grpc8internal18ServerCallbackCall12CallOnCancelEPNS0_13ServerReactorE");
  on_cancel_conditions_remaining_.load(std::memory_order_acquire);
  Hop* const hop = new Hop(this, reactor);
  __tsan_release(hop);
  library(this, hop);
}

}  // namespace grpc::internal
