// A child that ends well, badly, late or not at all: what it said is kept, how it ended is named, and its
// parent does not wait longer than it has to.
#include "device/child.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "device/files.h"

namespace spillway::device {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(RunInChild, BringsWhatTheChildReports) {
  Fields fields;
  const ChildRun run = RunInChild(
      [](Report& report) {
        report.Step("counting");
        report.Put("a", std::string("text with spaces"));
        report.Put("b", std::optional<uint64_t>(7));
        report.Put("c", std::optional<uint64_t>());
      },
      seconds(60), &fields);
  EXPECT_EQ(run.end, ChildEnd::kDone);
  EXPECT_EQ(run.step, "counting");
  EXPECT_EQ(fields, (Fields{{"a", "text with spaces"}, {"b", "7"}}));
}

TEST(RunInChild, LinesStayLinesWhateverTheValueHolds) {
  Fields fields;
  RunInChild([](Report& report) { report.Put("a", std::string("one\nend\t\ntwo\xff")); }, seconds(60),
             &fields);
  EXPECT_EQ(fields, (Fields{{"a", "one?end??two?"}}));
}

TEST(RunInChild, AChildThatHangsIsKilledAtTheDeadlineAndItsStepIsKnown) {
  Fields fields;
  const ChildRun run = RunInChild(
      [](Report& report) {
        report.Put("a", std::string("before"));
        report.Step("waiting");
        while (true) pause();
      },
      milliseconds(200), &fields);
  EXPECT_EQ(run.end, ChildEnd::kTimedOut);
  EXPECT_EQ(run.step, "waiting");
  EXPECT_EQ(fields["a"], "before");
}

TEST(RunInChild, WhatTheChildStartedDiesWithIt) {
  Fields fields;
  const ChildRun run = RunInChild(
      [](Report& report) {
        const pid_t grandchild = fork();
        if (grandchild == 0) {
          while (true) pause();
        }
        report.Put("pid", std::optional<int64_t>(grandchild));
        while (true) pause();
      },
      milliseconds(200), &fields);
  EXPECT_EQ(run.end, ChildEnd::kTimedOut);
  const pid_t grandchild = std::atoi(fields["pid"].c_str());
  ASSERT_GT(grandchild, 0);
  const auto until = std::chrono::steady_clock::now() + seconds(30);
  // Whoever inherits it reaps it; until then its state is "Z".
  const auto gone = [&] {
    const auto stat = ReadFile(Root(), "/proc/" + std::to_string(grandchild) + "/stat");
    return !stat || stat->find(") Z ") != std::string::npos;
  };
  while (!gone() && std::chrono::steady_clock::now() < until) sched_yield();
  EXPECT_TRUE(gone());
}

TEST(RunInChild, ACrashNamesItsSignal) {
  Fields fields;
  const ChildRun run = RunInChild(
      [](Report& report) {
        report.Step("crashing");
        kill(getpid(), SIGSEGV);
      },
      seconds(60), &fields);
  EXPECT_EQ(run.end, ChildEnd::kCrashed);
  EXPECT_EQ(run.signal, SIGSEGV);
  EXPECT_EQ(run.step, "crashing");
}

TEST(RunInChild, AnExitOrAnExceptionIsNoReport) {
  Fields fields;
  EXPECT_EQ(RunInChild([](Report&) { _exit(0); }, seconds(60), &fields).end, ChildEnd::kFailed);
  EXPECT_EQ(RunInChild([](Report&) { throw 1; }, seconds(60), &fields).end, ChildEnd::kFailed);
}

TEST(RunInChild, AReportWithoutEndIsCutOff) {
  Fields fields;
  const ChildRun run = RunInChild(
      [](Report& report) {
        while (true) report.Put("a", std::string(1000, 'x'));
      },
      seconds(60), &fields);
  EXPECT_EQ(run.end, ChildEnd::kFailed);
  EXPECT_NE(run.error.find("without end"), std::string::npos);
}

TEST(RunInChild, TheChildHoldsNoneOfTheParentsDescriptors) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  Fields fields;
  RunInChild(
      [&](Report& report) {
        report.Put("open", std::optional<int64_t>(write(ends[1], "x", 1) == 1 ? 1 : 0));
      },
      seconds(60), &fields);
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(fields["open"], "0");
}

}  // namespace
}  // namespace spillway::device
