// The system law over the real wire: a tiny model, every split point × {1, 2, 3 CPU workers in a row} ×
// {alone, in a batch of 5, prompt in chunks of 1, 7 and all} through the Worker service over gRPC gives
// logits bit-identical to one process. So does a model with recurrent layers, and what those cannot go back
// to is answered with where to replay from.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/base/status.h"
#include "engine/cpu/host_stage.h"
#include "engine/stage/local_pipeline.h"
#include "tests/rpc/worker_fixture.h"
#include "tests/support/expect_close.h"
#include "tests/support/files.h"
#include "tests/support/tiny_model.h"

namespace spillway {
namespace {

constexpr uint32_t kLayers = 4;
constexpr std::chrono::milliseconds kDeadline{20000};
constexpr uint32_t kPrompt = 13;  // of every sequence; logits of up to 16 rows fit a micro-batch

// A worker process's inside: model, ledger, service, server; and a client that keeps its stream.
class HostWorker {
 public:
  HostWorker(const std::string& path, const StageUnits& units, const StageOptions& options) {
    auto model = LoadModel(path);
    EXPECT_TRUE(model.ok()) << model.status();
    model_ = std::make_unique<Model>(std::move(*model));
    rpc::WorkerConfig config;
    config.role = units.head ? "gpu" : "cpu";
    config.device = "host";
    config.identity = model_->file->identity();
    service_ = std::make_unique<rpc::WorkerService>(
        config, *model_, ledger_,
        [this](const StageUnits& wanted, const StageOptions& stage, Ledger& ledger,
               std::function<void(uint64_t)> done) {
          return cpu::CreateHostStage(*model_, wanted, stage, ledger, std::move(done));
        },
        metrics_);
    rpc::ServerOptions server;
    server.name = "worker";
    server.address = "127.0.0.1:0";
    server.services = {service_->service()};
    auto started = rpc::Server::Start(server);
    EXPECT_TRUE(started.ok()) << started.status();
    server_ = std::move(*started);
    client_ = std::make_unique<rpc::StageClient>("worker", server_->address());
    v1::LoadStageRequest load;
    load.set_epoch(1);
    load.set_model_identity(config.identity);
    rpc::ToProto(units, load.mutable_expected()->mutable_units());
    rpc::ToProto(options, load.mutable_expected()->mutable_options());
    rpc::ToProto(*cpu::HostStageBytes(*model_, units, options), load.mutable_expected()->mutable_memory());
    load.mutable_expected()->set_device("host");
    EXPECT_TRUE(client_->LoadStage(load, kDeadline).ok());
    EXPECT_TRUE(client_->Connect(1, events_.Callbacks(), kDeadline).ok());
  }
  ~HostWorker() {
    client_.reset();
    service_->ShutDown(std::chrono::milliseconds(0));
    server_->Shutdown(std::chrono::milliseconds(0));
    server_.reset();
  }

  rpc::StageClient& client() { return *client_; }
  test::Events& events() { return events_; }

 private:
  Ledger ledger_;
  std::unique_ptr<Model> model_;
  telemetry::Registry registry_{"cpu-worker"};
  telemetry::WorkerMetrics metrics_{registry_, "cpu", "host"};
  test::Events events_;
  std::unique_ptr<rpc::WorkerService> service_;
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<rpc::StageClient> client_;
};

using Workers = std::vector<std::unique_ptr<HostWorker>>;

// Sends one micro-batch through all workers; the sampled rows of the last.
v1::ForwardReply RunThrough(Workers& workers, uint64_t step, const std::vector<Segment>& segments) {
  std::string activations;
  v1::ForwardReply reply;
  for (auto& worker : workers) {
    v1::Forward forward;
    forward.set_step(step);
    forward.set_activation_type(v1::ACTIVATION_TYPE_F32);
    for (const Segment& segment : segments) rpc::ToProto(segment, forward.add_segments());
    forward.set_activations(std::move(activations));
    worker->client().SendForward(std::move(forward));
    reply = std::move(worker->events().Reply().reply);
    EXPECT_EQ(reply.step(), step);
    EXPECT_EQ(reply.error_code(), 0u) << reply.error();
    for (const v1::SegmentResult& result : reply.segments()) {
      EXPECT_EQ(result.code(), v1::SEGMENT_CODE_OK) << result.error();
    }
    activations = std::move(*reply.mutable_activations());
  }
  return reply;
}

std::vector<int32_t> TokensOf(uint32_t sequence) {
  std::vector<int32_t> tokens;
  for (uint32_t i = 0; i < kPrompt; ++i)
    tokens.push_back(static_cast<int32_t>((i * 37 + sequence * 11) % 256));
  return tokens;
}

class SameTokensOverGrpc : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    test::TinyModel tiny;
    tiny.architecture = GetParam();
    tiny.n_layer = kLayers;
    tiny.weight_type = TensorType::kQ8_0;
    const auto path = test::WriteTinyModel(tiny, dir_.File("tiny.gguf"));
    ASSERT_TRUE(path.ok()) << path.status();
    path_ = *path;
    options_.n_ctx = 64;
    options_.kv_pages = 16;
    options_.max_sequences = 8;
    options_.max_rows = 80;
    auto model = LoadModel(path_);
    ASSERT_TRUE(model.ok());
    n_vocab_ = model->config.n_vocab;
    n_embd_ = model->config.n_embd;
    Ledger ledger;
    auto stage = cpu::CreateHostStage(*model, {0, kLayers, true, true}, options_, ledger);
    ASSERT_TRUE(stage.ok()) << stage.status();
    Stage* pointer = stage->get();
    for (uint32_t sequence = 0; sequence < 5; ++sequence) {
      auto logits = AllLogits(std::span<Stage* const>(&pointer, 1), TokensOf(sequence), 16);
      ASSERT_TRUE(logits.ok()) << logits.status();
      unsplit_.push_back(std::move(*logits));
    }
  }

  Workers Start(uint32_t split, uint32_t cpu_workers) {
    Workers workers;
    for (uint32_t i = 0; i < cpu_workers; ++i) {
      workers.push_back(std::make_unique<HostWorker>(
          path_, StageUnits{split * i / cpu_workers, split * (i + 1) / cpu_workers, i == 0, false},
          options_));
    }
    workers.push_back(std::make_unique<HostWorker>(path_, StageUnits{split, kLayers, false, true}, options_));
    return workers;
  }

  void Open(Workers& workers, uint32_t sequences) {
    for (auto& worker : workers) {
      for (uint32_t s = 0; s < sequences; ++s) {
        v1::Open open;
        open.set_sequence(s + 1);
        rpc::ToProto(SamplingParams{}, open.mutable_sampling());
        worker->client().SendOpen(open);
      }
    }
  }

  // Rows of `sequences` prompts in chunks, logits of every row checked.
  void Check(Workers& workers, uint32_t sequences, uint32_t chunk) {
    SCOPED_TRACE(testing::Message() << sequences << " sequences in chunks of " << chunk);
    Open(workers, sequences);
    std::vector<std::vector<int32_t>> tokens;
    for (uint32_t s = 0; s < sequences; ++s) tokens.push_back(TokensOf(s));
    for (uint32_t begin = 0; begin < kPrompt; begin += chunk) {
      const uint32_t count = std::min(chunk, kPrompt - begin);
      std::vector<Segment> segments;
      for (uint32_t s = 0; s < sequences; ++s) {
        Segment segment;
        segment.sequence = s + 1;
        segment.begin = begin;
        segment.outputs = count * sequences <= kMaxLogitRows ? Outputs::kAll : Outputs::kLast;
        segment.return_logits = true;
        segment.prefix_hash = PrefixHash(std::span(tokens[s]).first(begin));
        segment.tokens = std::span(tokens[s]).subspan(begin, count);
        segments.push_back(segment);
      }
      const v1::ForwardReply reply = RunThrough(workers, ++step_, segments);
      ASSERT_GE(reply.sampled_size(), static_cast<int>(sequences));
      for (const v1::SampledRow& row : reply.sampled()) {
        ASSERT_EQ(row.logits().size(), n_vocab_ * sizeof(float));
        std::vector<float> logits(n_vocab_);
        std::memcpy(logits.data(), row.logits().data(), row.logits().size());
        test::ExpectSameBits(
            logits,
            std::span(unsplit_[row.segment()]).subspan(uint64_t{row.position()} * n_vocab_, n_vocab_));
      }
    }
    for (auto& worker : workers) {
      for (uint32_t s = 0; s < sequences; ++s) worker->client().SendClose(s + 1);
    }
  }

  test::TempDir dir_;
  std::string path_;
  StageOptions options_;
  uint32_t n_vocab_ = 0;
  uint32_t n_embd_ = 0;
  uint64_t step_ = 0;
  std::vector<std::vector<float>> unsplit_;
};

TEST_P(SameTokensOverGrpc, AtEverySplitWithOneToThreeCpuWorkersAloneAndInABatchInEveryChunking) {
  for (uint32_t split = 0; split <= kLayers; ++split) {
    // A worker holds a layer at least; the first may hold the embedding alone.
    for (uint32_t cpu_workers = 1; cpu_workers <= std::clamp(split, 1u, 3u); ++cpu_workers) {
      SCOPED_TRACE(testing::Message() << "split " << split << ", " << cpu_workers << " CPU workers");
      Workers workers = Start(split, cpu_workers);
      for (uint32_t sequences : {1u, 5u}) {
        for (uint32_t chunk : {1u, 7u, kPrompt}) Check(workers, sequences, chunk);
      }
    }
  }
}

// Cut back to every position, as after an edit: each stage says where it can go on from.
TEST_P(SameTokensOverGrpc, AfterReplayFromWhereTheStagesSay) {
  Workers workers = Start(2, 1);
  Open(workers, 1);
  const std::vector<int32_t> tokens = TokensOf(0);
  const auto segment = [&](uint32_t begin, uint32_t end) {
    Segment segment;
    segment.sequence = 1;
    segment.begin = begin;
    segment.outputs = Outputs::kLast;
    segment.return_logits = true;
    segment.prefix_hash = PrefixHash(std::span(tokens).first(begin));
    segment.tokens = std::span(tokens).subspan(begin, end - begin);
    return segment;
  };
  const bool recurrent = std::string(GetParam()) != "llama";
  for (uint32_t begin = 1; begin < kPrompt; ++begin) {
    SCOPED_TRACE(begin);
    RunThrough(workers, ++step_, {segment(0, 7)});
    RunThrough(workers, ++step_, {segment(7, kPrompt)});
    uint32_t from = begin;
    for (auto& worker : workers) {
      v1::Forward forward;
      forward.set_step(++step_);
      rpc::ToProto(segment(begin, begin + 1), forward.add_segments());
      forward.mutable_segments(0)->set_recompute(true);  // asks, and leaves what is held
      forward.set_activation_type(v1::ACTIVATION_TYPE_F32);
      forward.mutable_activations()->resize(worker == workers.front() ? 0 : n_embd_ * sizeof(float));
      worker->client().SendForward(std::move(forward));
      const v1::ForwardReply reply = std::move(worker->events().Reply().reply);
      ASSERT_EQ(reply.segments_size(), 1) << reply.error();
      const v1::SegmentResult& result = reply.segments(0);
      if (result.code() == v1::SEGMENT_CODE_OK) continue;
      ASSERT_EQ(result.code(), v1::SEGMENT_CODE_NEEDS_REPLAY) << result.error();
      ASSERT_LT(result.resume_tokens(), begin);
      from = std::min(from, result.resume_tokens());
    }
    EXPECT_EQ(from, recurrent ? (begin < 7 ? 0u : 7u) : begin);
    const v1::ForwardReply reply = RunThrough(workers, ++step_, {segment(from, begin + 1)});
    ASSERT_EQ(reply.sampled_size(), 1);
    std::vector<float> logits(n_vocab_);
    std::memcpy(logits.data(), reply.sampled(0).logits().data(), logits.size() * sizeof(float));
    test::ExpectSameBits(logits, std::span(unsplit_[0]).subspan(uint64_t{begin} * n_vocab_, n_vocab_));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SameTokensOverGrpc, testing::Values("llama", "qwen35"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace spillway
