// The CPU worker: holds the layers that spilled, in RAM.
#include "rpc/worker_main.h"

int main(int argc, char** argv) {
  spillway::rpc::WorkerProgram program;
  program.name = "spillway-cpu-worker";
  program.role = "cpu";
  program.default_listen = "127.0.0.1:50100";
  program.default_metrics = "127.0.0.1:9600";
  return spillway::rpc::RunWorker(program, argc, argv);
}
