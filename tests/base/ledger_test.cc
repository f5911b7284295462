// Goal: the ledger books exactly the rounded bytes by purpose, refuses what exceeds the budget without
// booking any of it, and gives back on destruction; from many threads at once too.
#include "engine/base/ledger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/status.h"

namespace spillway {
namespace {

// The sanitizers' allocators abort on absurd sizes instead of refusing them.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kAllocatorAborts = true;
#else
constexpr bool kAllocatorAborts = false;
#endif

Buffer Take(Ledger& ledger, Purpose purpose, uint64_t bytes) {
  auto buffer = ledger.Allocate(purpose, bytes, "test");
  EXPECT_TRUE(buffer.ok()) << buffer.status().message();
  return *std::move(buffer);
}

TEST(Ledger, BooksRequestedBytesRoundedUpTo64ByPurpose) {
  Ledger ledger;
  const Buffer one = Take(ledger, Purpose::kWeights, 1);
  const Buffer exact = Take(ledger, Purpose::kKvCache, 128);
  const Buffer more = Take(ledger, Purpose::kKvCache, 129);
  PurposeBytes expected;
  expected[Purpose::kWeights] = 64;
  expected[Purpose::kKvCache] = 128 + 192;
  EXPECT_EQ(ledger.Allocated(), expected);
  EXPECT_EQ(ledger.Allocated().Total(), 384u);
  EXPECT_EQ(more.size(), 192u);
}

TEST(Ledger, MemoryIsAlignedAndZero) {
  Ledger ledger;
  for (const uint64_t bytes : {1, 63, 64, 65, 4096, 1000003}) {
    Buffer buffer = Take(ledger, Purpose::kStaging, bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
    const auto span = buffer.As<std::byte>();
    EXPECT_EQ(span.size(), LedgerBytes(bytes));
    EXPECT_TRUE(std::all_of(span.begin(), span.end(), [](std::byte b) { return b == std::byte{0}; }));
    std::fill(span.begin(), span.end(), std::byte{0xff});  // so that a reused block would show
  }
}

TEST(Ledger, FillsTheBudgetToTheByteAndNoFurther) {
  Ledger ledger(1024);
  const Buffer most = Take(ledger, Purpose::kWeights, 960);
  EXPECT_FALSE(ledger.Allocate(Purpose::kWorkspace, 65, "scratch").ok());
  EXPECT_EQ(ledger.Allocated().Total(), 960u);
  const Buffer rest = Take(ledger, Purpose::kWorkspace, 64);
  EXPECT_EQ(ledger.Allocated().Total(), 1024u);
  EXPECT_FALSE(ledger.Allocate(Purpose::kWorkspace, 1, "scratch").ok());
  EXPECT_TRUE(ledger.Allocate(Purpose::kWorkspace, 0, "nothing").ok());
  EXPECT_EQ(ledger.allocation_failures(), 2u);
}

TEST(Ledger, RefusalNamesWhatPurposeAndBudget) {
  Ledger ledger(100);
  const auto refused = ledger.Allocate(Purpose::kKvCache, 640, "page 7");
  ASSERT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  const std::string message = MessageOf(refused.status());
  for (const char* part : {"page 7", "kv_cache", "640", "100"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

TEST(Ledger, SizesThatOverflowAreRefused) {
  for (const uint64_t budget : {Ledger::kUnlimited, uint64_t{1} << 20}) {
    Ledger ledger(budget);
    for (uint64_t short_of = 0; short_of < 63; ++short_of) {
      EXPECT_EQ(ledger.Allocate(Purpose::kWeights, Ledger::kUnlimited - short_of, "absurd").status().code(),
                absl::StatusCode::kResourceExhausted);
    }
    EXPECT_EQ(ledger.Allocated().Total(), 0u);
    EXPECT_EQ(ledger.allocation_failures(), 63u);
  }
}

TEST(Ledger, SumsOfBookingsCannotOverflow) {
  Ledger ledger;
  const auto half = ledger.Book(Purpose::kWeights, uint64_t{1} << 63, "half");
  ASSERT_TRUE(half.ok());
  EXPECT_FALSE(ledger.Book(Purpose::kKvCache, uint64_t{1} << 63, "other half").ok());
  EXPECT_EQ(ledger.Allocated().Total(), uint64_t{1} << 63);
}

TEST(Ledger, ARefusalOfTheMachineIsCountedAndBooksNothing) {
  if (kAllocatorAborts) GTEST_SKIP() << "the sanitizer's allocator aborts on absurd sizes";
  Ledger ledger;
  EXPECT_EQ(ledger.Allocate(Purpose::kWeights, uint64_t{1} << 62, "absurd").status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ledger.Allocated().Total(), 0u);
  EXPECT_EQ(ledger.allocation_failures(), 1u);
}

TEST(Ledger, BookingHoldsNoMemoryButCounts) {
  Ledger ledger(1000);
  {
    auto booked = ledger.Book(Purpose::kWeights, 900, "mapped");
    ASSERT_TRUE(booked.ok());
    EXPECT_EQ(booked->data(), nullptr);
    EXPECT_EQ(ledger.Allocated()[Purpose::kWeights], 960u);
    EXPECT_FALSE(ledger.Book(Purpose::kWeights, 64, "mapped").ok());
  }
  EXPECT_EQ(ledger.Allocated().Total(), 0u);
}

TEST(Ledger, DestructionGivesBack) {
  Ledger ledger(64);
  for (int i = 0; i < 100; ++i) Take(ledger, Purpose::kActivations, 64);
  EXPECT_EQ(ledger.Allocated().Total(), 0u);
}

TEST(Buffer, MovingTransfersTheBooking) {
  Ledger ledger;
  Buffer first = Take(ledger, Purpose::kWeights, 64);
  std::byte* const data = first.data();
  Buffer second = std::move(first);
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(first.data(), nullptr);  // NOLINT(bugprone-use-after-move): empty by contract
  EXPECT_EQ(first.size(), 0u);
  EXPECT_EQ(ledger.Allocated().Total(), 64u);
}

TEST(Buffer, AssignmentGivesTheOldMemoryBackAtOnce) {
  Ledger ledger;
  Buffer target = Take(ledger, Purpose::kWeights, 64);
  Buffer source = Take(ledger, Purpose::kKvCache, 128);
  target = std::move(source);
  EXPECT_EQ(ledger.Allocated()[Purpose::kWeights], 0u);
  EXPECT_EQ(ledger.Allocated()[Purpose::kKvCache], 128u);
  target = Buffer();
  EXPECT_EQ(ledger.Allocated().Total(), 0u);
}

TEST(Ledger, ThreadsNeverExceedTheBudgetTogether) {
  constexpr int kThreads = 4;
  constexpr uint64_t kBudget = 640;
  Ledger ledger(kBudget);
  std::atomic<uint64_t> refused{0};
  std::atomic<bool> exceeded{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5000; ++i) {
        const auto purpose = static_cast<Purpose>((t + i) % kPurposes);
        auto one = ledger.Allocate(purpose, 64 + 64 * (i % 4), "one");
        auto two = ledger.Book(purpose, 100, "two");
        refused += !one.ok() + !two.ok();
        if (ledger.Allocated().Total() > kBudget) exceeded = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(exceeded);
  EXPECT_EQ(ledger.allocation_failures(), refused);
  EXPECT_EQ(ledger.Allocated(), PurposeBytes());
}

TEST(PurposeBytes, AddUpByPurpose) {
  PurposeBytes a, b;
  a[Purpose::kWeights] = 1;
  b[Purpose::kWeights] = 2;
  b[Purpose::kContext] = 4;
  a += b;
  EXPECT_EQ(a[Purpose::kWeights], 3u);
  EXPECT_EQ(a[Purpose::kContext], 4u);
  EXPECT_EQ(a.Total(), 7u);
  EXPECT_EQ(PurposeName(Purpose::kContext), "context");
}

}  // namespace
}  // namespace spillway
