// The verdict, rule by rule: a healthy worker is no fallback, and each single disagreement is one with its
// figures.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "truth/runbook.h"
#include "truth/verdict.h"

namespace spillway::truth {
namespace {

using ::testing::HasSubstr;

WorkerFacts Healthy() {
  WorkerFacts facts;
  facts.planned = facts.loaded = true;
  facts.expected_device = facts.executed_device = "host";
  facts.expected_layers = facts.loaded_layers = 10;
  facts.expected_bytes[Purpose::kWeights] = facts.allocated_bytes[Purpose::kWeights] = 1 << 20;
  facts.rows = 7;
  facts.layer_steps = 70;
  return facts;
}

TEST(Judge, HealthyWorkerIsNoFallback) {
  const Verdict verdict = Judge(Healthy());
  EXPECT_FALSE(verdict.fallback());
  EXPECT_EQ(verdict.cause, "");
  EXPECT_EQ(verdict.detail, "");
}

TEST(Judge, IdleWorkerIsNoFallback) {
  WorkerFacts facts = Healthy();
  facts.rows = facts.layer_steps = 0;
  EXPECT_FALSE(Judge(facts).fallback());
}

TEST(Judge, NotPlannedOrStillLoadingIsNoFallback) {
  EXPECT_FALSE(Judge(WorkerFacts{}).fallback());
  WorkerFacts loading = Healthy();
  loading.loaded = false;
  loading.loaded_layers = 0;
  loading.allocated_bytes = {};
  EXPECT_FALSE(Judge(loading).fallback());
}

TEST(Judge, SilentWorkerIsUnreachable) {
  WorkerFacts facts;
  facts.reachable = false;
  const Verdict verdict = Judge(facts);
  EXPECT_EQ(verdict.extent, Extent::kFull);
  EXPECT_EQ(verdict.cause, "worker_unreachable");
  EXPECT_EQ(verdict.remedy, FindCause("worker_unreachable")->remedy);
}

TEST(Judge, MissingLayersArePartialOrFull) {
  WorkerFacts facts = Healthy();
  facts.loaded_layers = 6;
  Verdict verdict = Judge(facts);
  EXPECT_EQ(verdict.extent, Extent::kPartial);
  EXPECT_EQ(verdict.cause, "unknown");
  EXPECT_EQ(verdict.detail, "layers: 10 planned, 6 loaded");
  facts.loaded_layers = 0;
  EXPECT_EQ(Judge(facts).extent, Extent::kFull);
}

TEST(Judge, MissingLayersAfterARefusedAllocationAreAllocFailed) {
  WorkerFacts facts = Healthy();
  facts.loaded_layers = 6;
  facts.allocation_failures = 1;
  EXPECT_EQ(Judge(facts).cause, "alloc_failed");
  facts.loaded = false;
  facts.loaded_layers = 0;
  const Verdict verdict = Judge(facts);
  EXPECT_EQ(verdict.cause, "alloc_failed");
  EXPECT_EQ(verdict.extent, Extent::kFull);
}

TEST(Judge, HeadOnlyStageThatCouldNotAllocateIsAllocFailed) {
  WorkerFacts facts = Healthy();
  facts.expected_layers = facts.loaded_layers = 0;
  facts.loaded = false;
  facts.allocation_failures = 1;
  EXPECT_EQ(Judge(facts).cause, "alloc_failed");
}

TEST(Judge, MoreLayersThanPlannedDisagreeToo) {
  WorkerFacts facts = Healthy();
  facts.loaded_layers = 11;
  EXPECT_EQ(Judge(facts).detail, "layers: 10 planned, 11 loaded");
  EXPECT_TRUE(Judge(facts).fallback());
}

TEST(Judge, AnotherDeviceThanPlannedIsFull) {
  WorkerFacts facts = Healthy();
  facts.expected_device = "cuda";
  const Verdict verdict = Judge(facts);
  EXPECT_EQ(verdict.extent, Extent::kFull);
  EXPECT_EQ(verdict.cause, "op_unsupported");
  EXPECT_THAT(verdict.detail, HasSubstr("\"cuda\" planned, \"host\" executes"));
}

TEST(Judge, OneByteMoreOrLessIsNamedWithItsPurpose) {
  for (const int64_t difference : {-1, 1}) {
    WorkerFacts facts = Healthy();
    facts.allocated_bytes[Purpose::kWeights] += static_cast<uint64_t>(difference);
    const Verdict verdict = Judge(facts);
    EXPECT_EQ(verdict.extent, Extent::kPartial);
    EXPECT_EQ(verdict.cause, "unknown");
    EXPECT_EQ(verdict.detail,
              "weights: 1048576 bytes planned, " + std::to_string(1048576 + difference) + " allocated");
  }
}

TEST(Judge, EveryPurposeThatDiffersIsNamed) {
  WorkerFacts facts = Healthy();
  facts.allocated_bytes[Purpose::kKvCache] = 64;
  facts.allocated_bytes[Purpose::kWorkspace] = 128;
  EXPECT_EQ(Judge(facts).detail,
            "kv_cache: 0 bytes planned, 64 allocated; workspace: 0 bytes planned, 128 allocated");
}

TEST(Judge, SkippedLayerStepsAreCounted) {
  WorkerFacts facts = Healthy();
  facts.layer_steps = 63;
  Verdict verdict = Judge(facts);
  EXPECT_EQ(verdict.extent, Extent::kPartial);
  EXPECT_EQ(verdict.detail, "layer-steps: 7 rows x 10 layers = 70 planned, 63 executed");
  facts.layer_steps = 0;
  EXPECT_EQ(Judge(facts).extent, Extent::kFull);
}

TEST(Judge, ObservedFarOverAllocatedIsToldButNoFallback) {
  WorkerFacts facts = Healthy();
  facts.observed_bytes = facts.allocated_bytes.Total() + (uint64_t{300} << 20);  // within base and slack
  EXPECT_EQ(Judge(facts).detail, "");
  facts.observed_bytes += uint64_t{100} << 20;
  const Verdict verdict = Judge(facts);
  EXPECT_FALSE(verdict.fallback());
  EXPECT_THAT(verdict.detail, HasSubstr("observed: the system counts"));
}

TEST(Causes, AreNumberedInOrderWithUniqueNames) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < Causes().size(); ++i) {
    EXPECT_EQ(Causes()[i].id, fmt::format("F{}", i));
    EXPECT_TRUE(names.insert(Causes()[i].name).second);
    EXPECT_FALSE(Causes()[i].remedy.empty());
    EXPECT_EQ(FindCause(Causes()[i].name), &Causes()[i]);
  }
  EXPECT_EQ(names.size(), 22u);
  EXPECT_EQ(FindCause("no such cause"), nullptr);
}

TEST(Runbook, HasASectionPerCause) {
  const std::string runbook = RunbookMarkdown();
  for (const CauseInfo& cause : Causes())
    EXPECT_THAT(runbook, HasSubstr("\n### " + std::string(cause.name) + "\n"));
}

}  // namespace
}  // namespace spillway::truth
