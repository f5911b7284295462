// The planner: every budget from nothing to everything gives a plan that fits to the byte or a refusal that
// says what would; the bytes of a plan are those that loading allocates.
#include "engine/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/status.h"
#include "engine/cpu/host_stage.h"
#include "tests/support/files.h"
#include "tests/support/tiny_model.h"

namespace spillway {
namespace {

class Planner : public testing::Test {
 protected:
  void SetUp() override {
    test::TinyModel tiny;
    tiny.n_layer = 6;
    const auto path = test::WriteTinyModel(tiny, dir_.File("tiny.gguf"));
    ASSERT_TRUE(path.ok()) << path.status();
    auto model = LoadModel(*path);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = std::make_unique<Model>(std::move(*model));
    options_.n_ctx = 256;
    options_.parallel = 2;
    options_.max_rows = 32;
    options_.cpu.resize(2);
  }

  uint64_t GpuBytes(const Plan& plan) const { return plan.stages.back().bytes.Total(); }

  test::TempDir dir_;
  std::unique_ptr<Model> model_;
  PlanOptions options_;
};

TEST_F(Planner, SaysWhenPagesOfCodesWouldFit) {
  options_.gpu_layers = PlanOptions::GpuLayers::kAll;
  options_.cache_type_k = options_.cache_type_v = CacheType::kQ8_0;
  const auto codes = MakePlan(*model_, options_);
  ASSERT_TRUE(codes.ok()) << codes.status();
  options_.gpu.budget_bytes = GpuBytes(*codes);
  EXPECT_TRUE(MakePlan(*model_, options_).ok());
  options_.cache_type_k = options_.cache_type_v = CacheType::kF16;
  const auto refused = MakePlan(*model_, options_);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_NE(refused.status().message().find("--cache-type-k q8_0"), absl::string_view::npos)
      << refused.status();
}

TEST_F(Planner, EveryBudgetFitsOrIsRefusedWithAdvice) {
  options_.gpu_layers = PlanOptions::GpuLayers::kAll;
  const uint64_t everything = GpuBytes(*MakePlan(*model_, options_));
  options_.gpu_layers = PlanOptions::GpuLayers::kAuto;
  uint32_t previous = 0;
  for (int step = 0; step <= 64; ++step) {
    options_.gpu.budget_bytes = everything * step / 64;
    const auto plan = MakePlan(*model_, options_);
    if (!plan.ok()) {
      EXPECT_EQ(plan.status().code(), absl::StatusCode::kResourceExhausted);
      EXPECT_EQ(previous, 0u) << "a larger budget fits less";
      continue;
    }
    EXPECT_LE(GpuBytes(*plan), options_.gpu.budget_bytes);
    EXPECT_GE(plan->n_gpu_layers, previous);
    previous = plan->n_gpu_layers;
    uint32_t next = 0;
    for (const PlannedStage& stage : plan->stages) {
      EXPECT_EQ(stage.units.layer_begin, next);
      next = stage.units.layer_end;
      EXPECT_EQ(stage.units.embedding, stage.units.layer_begin == 0 && &stage == &plan->stages.front());
      EXPECT_EQ(stage.units.head, stage.gpu);
      Ledger ledger(stage.bytes.Total());
      const auto loaded = cpu::CreateHostStage(*model_, stage.units, stage.options, ledger);
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      EXPECT_EQ(ledger.Allocated(), stage.bytes);
    }
    EXPECT_EQ(next, 6u);
  }
  EXPECT_EQ(previous, 6u);
}

TEST_F(Planner, SpreadsSpilledLayersOverCpuWorkersInOrder) {
  options_.gpu_layers = PlanOptions::GpuLayers::kCount;
  options_.n_gpu_layers = 1;
  const auto plan = MakePlan(*model_, options_);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->stages.size(), 3u);
  EXPECT_EQ(plan->stages[0].units, (StageUnits{0, 2, true, false}));
  EXPECT_EQ(plan->stages[1].units, (StageUnits{2, 5, false, false}));
  EXPECT_EQ(plan->stages[2].units, (StageUnits{5, 6, false, true}));
}

TEST_F(Planner, AFixedNumberThatDoesNotFitIsRefusedWithWhatWould) {
  options_.gpu_layers = PlanOptions::GpuLayers::kCount;
  options_.n_gpu_layers = 3;
  const uint64_t needed = GpuBytes(*MakePlan(*model_, options_));
  options_.n_gpu_layers = 4;
  options_.gpu.budget_bytes = needed;
  const auto refused = MakePlan(*model_, options_);
  ASSERT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(refused.status()), testing::HasSubstr("3 layers would fit at this context"));
  EXPECT_THAT(MessageOf(refused.status()), testing::ContainsRegex("a context of [0-9]+ tokens would fit"));
}

TEST_F(Planner, RefusesASpillThatNobodyTakes) {
  options_.cpu.clear();
  options_.gpu_layers = PlanOptions::GpuLayers::kCount;
  options_.n_gpu_layers = 5;
  EXPECT_THAT(MessageOf(MakePlan(*model_, options_).status()), testing::HasSubstr("no CPU worker"));
  options_.cpu.resize(1);
  options_.cpu[0].budget_bytes = 1000;
  EXPECT_THAT(MessageOf(MakePlan(*model_, options_).status()), testing::HasSubstr("cpu-worker-0 needs"));
}

TEST_F(Planner, RefusesAbsurdOptions) {
  const auto code = [&](auto change) {
    PlanOptions options = options_;
    change(options);
    return MakePlan(*model_, options).status().code();
  };
  EXPECT_EQ(code([](PlanOptions& o) { o.n_ctx = 1u << 30; }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](PlanOptions& o) { o.n_ctx = 4096; }),
            absl::StatusCode::kInvalidArgument);  // trained for 2048
  EXPECT_EQ(code([](PlanOptions& o) { o.parallel = 0; }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](PlanOptions& o) { o.max_rows = 1u << 20; }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](PlanOptions& o) {
              o.gpu_layers = PlanOptions::GpuLayers::kCount;
              o.n_gpu_layers = 7;
            }),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](PlanOptions& o) { o.n_ctx = 0; }), absl::StatusCode::kOk);
}

TEST(Sizes, ParseAndPrint) {
  EXPECT_EQ(*ParseBytes("64MiB"), 64u << 20);
  EXPECT_EQ(*ParseBytes("1.5 GB"), 1500000000u);
  EXPECT_EQ(*ParseBytes("1048576"), 1048576u);
  for (const char* bad : {"", "MiB", "-1", "1XB", "nan", "inf", "1e30GiB", "0x10zz"}) {
    EXPECT_FALSE(ParseBytes(bad).ok()) << bad;
  }
  EXPECT_EQ(FormatBytesHuman(67108864), "64.0 MiB");
  EXPECT_EQ(FormatBytesHuman(999), "999 B");
}

TEST(GpuLayersOption, ParsesAutoAllAndNumbers) {
  PlanOptions options;
  EXPECT_TRUE(ParseGpuLayers("all", &options).ok());
  EXPECT_EQ(options.gpu_layers, PlanOptions::GpuLayers::kAll);
  EXPECT_TRUE(ParseGpuLayers("12", &options).ok());
  EXPECT_EQ(options.n_gpu_layers, 12u);
  for (const char* bad : {"", "-1", "12x", "many"}) EXPECT_FALSE(ParseGpuLayers(bad, &options).ok()) << bad;
}

}  // namespace
}  // namespace spillway
