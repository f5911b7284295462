// Answers of a healthy worker, for tests to spoil.
#pragma once

#include "monitor/poller.h"

namespace spillway::monitor {

inline v1::DescribeReply HealthyReply() {
  v1::DescribeReply reply;
  reply.set_role("cpu");
  reply.set_state("ready");
  reply.mutable_profile()->set_device("host");
  reply.mutable_profile()->set_name("Some CPU");
  reply.mutable_profile()->set_isa("avx2");
  reply.mutable_expected()->set_device("host");
  reply.mutable_expected()->mutable_units()->set_layer_end(10);
  reply.mutable_expected()->mutable_units()->set_embedding(true);
  reply.mutable_expected()->mutable_memory()->set_weights(3 << 20);
  reply.mutable_loaded()->set_layer_end(10);
  reply.mutable_loaded()->set_embedding(true);
  reply.mutable_allocated()->set_weights(3 << 20);
  reply.set_rows(5);
  reply.set_layer_steps(50);
  reply.set_started_unix_ns(1);
  return reply;
}

inline WorkerSample Reachable(v1::DescribeReply reply) {
  WorkerSample sample;
  sample.reachable = true;
  sample.reply = std::move(reply);
  return sample;
}

inline WorkerSample Unreachable() {
  WorkerSample sample;
  sample.error = "connection refused";
  return sample;
}

}  // namespace spillway::monitor
