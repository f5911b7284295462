// The GPU worker: holds the layers that fit the VRAM and the output head. --device host runs them on the CPU
// within a VRAM budget, only when asked for.
#include "rpc/worker_main.h"

int main(int argc, char** argv) {
  spillway::rpc::WorkerProgram program;
  program.name = "spillway-gpu-worker";
  program.role = "gpu";
  program.default_listen = "127.0.0.1:50051";
  program.default_metrics = "127.0.0.1:9561";
  return spillway::rpc::RunWorker(program, argc, argv);
}
