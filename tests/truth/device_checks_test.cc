// Every detector of a cause, from made-up facts: the healthy machine passes every check, and each single
// change of it is named, with its figures and in the right order.
#include "truth/device_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>

namespace spillway::truth {
namespace {

using device::ChildEnd;
using device::GpuFacts;
using ::testing::HasSubstr;

constexpr uint64_t kGiB = uint64_t{1} << 30;

GpuFacts Healthy(size_t devices = 1) {
  GpuFacts facts;
  facts.files.driver_loaded = true;
  facts.files.driver_version = "580.65.06";
  facts.files.displays.resize(devices);
  facts.nodes = {{"/dev/nvidiactl", true, 0}, {"/dev/nvidia-uvm", true, 0}};
  facts.cuda.run.end = facts.nvml.run.end = ChildEnd::kDone;
  facts.cuda.library = "/lib/libcuda.so.580.65.06";
  facts.cuda.driver_version = 13000;
  facts.cuda.device_count = facts.nvml.device_count = devices;
  for (size_t i = 0; i < devices; ++i) {
    device::CudaDevice cuda;
    cuda.name = "GPU";
    cuda.uuid = "GPU-" + std::to_string(i);
    cuda.cc_major = 9;
    cuda.cc_minor = 0;
    facts.cuda.devices.push_back(cuda);
    device::NvmlDevice nvml;
    nvml.uuid = cuda.uuid;
    nvml.memory_total_bytes = 24 * kGiB;
    nvml.memory_used_bytes = kGiB / 2;
    nvml.throttle_reasons = 1;
    nvml.pcie_generation = nvml.pcie_generation_max = 4;
    nvml.pcie_width = nvml.pcie_width_max = 16;
    facts.nvml.devices.push_back(nvml);
  }
  return facts;
}

// The machine without a driver's help: what is left when CUDA does not start.
GpuFacts StartFails(int64_t code) {
  GpuFacts facts = Healthy();
  facts.cuda.device_count.reset();
  facts.cuda.devices.clear();
  facts.cuda.failed = {"cuInit", code, ""};
  return facts;
}

std::string CauseOf(const GpuFacts& facts, const DeviceNeeds& needs = {}) {
  const auto checks = CheckDevices(facts, needs);
  const DeviceCheck* problem = FirstProblem(checks);
  return problem == nullptr ? "" : problem->cause;
}

std::string DetailOf(const GpuFacts& facts, const DeviceNeeds& needs = {}) {
  const auto checks = CheckDevices(facts, needs);
  const DeviceCheck* problem = FirstProblem(checks);
  return problem == nullptr ? "" : problem->detail;
}

TEST(CheckDevices, PassesAHealthyMachineAndSaysWhatItSaw) {
  const auto checks = CheckDevices(Healthy(), {});
  EXPECT_EQ(FirstProblem(checks), nullptr);
  EXPECT_GE(checks.size(), 9u);
  for (const DeviceCheck& check : checks) EXPECT_NE(check.detail, "") << check.name;
}

TEST(CheckDevices, AreNoneWithoutADevice) {
  GpuFacts facts;
  facts.cuda.library_error = facts.nvml.library_error = "cannot open";
  EXPECT_TRUE(CheckDevices(facts, {}).empty());
}

TEST(CheckDevices, AbsentDriverIsNamedByWhatIsMissing) {
  GpuFacts facts = StartFails(100);
  facts.files.driver_loaded = false;
  EXPECT_EQ(CauseOf(facts), "driver_absent");
  EXPECT_THAT(DetailOf(facts), HasSubstr("/proc/driver/nvidia/version"));
  facts = StartFails(100);
  facts.cuda.library_error = "libcuda.so.1: cannot open shared object file";
  facts.nvidia_visible_devices = "void";
  EXPECT_EQ(CauseOf(facts), "driver_absent");
  EXPECT_THAT(DetailOf(facts), HasSubstr("libcuda.so.1: cannot open"));
  EXPECT_THAT(DetailOf(facts), HasSubstr("NVIDIA_VISIBLE_DEVICES=\"void\""));
}

TEST(CheckDevices, AWorkingDriverWithoutItsFilesIsNotAbsent) {
  GpuFacts facts = Healthy();
  facts.files = {};
  facts.nodes.clear();
  EXPECT_EQ(CauseOf(facts), "");
}

TEST(CheckDevices, MismatchIsToldByCodeOrByVersions) {
  for (const int64_t code : {803, 804}) EXPECT_EQ(CauseOf(StartFails(code)), "driver_mismatch");
  GpuFacts facts = StartFails(999);
  facts.nvml.failed = {"nvmlInit_v2", 18, ""};
  EXPECT_EQ(CauseOf(facts), "driver_mismatch");
  facts = StartFails(999);
  facts.cuda.library = "/lib/libcuda.so.550.1";
  EXPECT_EQ(CauseOf(facts), "driver_mismatch");
  EXPECT_THAT(DetailOf(facts), HasSubstr("kernel module 580.65.06, library 550.1"));
  // The compatibility package's newer library works with an older module.
  facts = Healthy();
  facts.cuda.library = "/lib/libcuda.so.590.1";
  EXPECT_EQ(CauseOf(facts), "");
}

TEST(CheckDevices, TooOldIsToldByVersionBeforeTheStartFails) {
  GpuFacts facts = Healthy();
  facts.cuda.driver_version = 11080;
  EXPECT_EQ(CauseOf(facts), "driver_too_old");
  EXPECT_THAT(DetailOf(facts), HasSubstr("CUDA 11.8"));
  facts = StartFails(35);
  EXPECT_EQ(CauseOf(facts), "driver_too_old");
  DeviceNeeds needs;
  needs.cuda_version = 13010;
  EXPECT_THAT(DetailOf(Healthy(), needs), HasSubstr("CUDA 13.1 is needed"));
}

TEST(CheckDevices, HiddenNeedsSomebodyWhoHides) {
  EXPECT_EQ(CauseOf(StartFails(100)), "device_not_ready");
  GpuFacts facts = StartFails(100);
  facts.cuda_visible_devices = "";
  EXPECT_EQ(CauseOf(facts), "device_hidden");
  EXPECT_THAT(DetailOf(facts), HasSubstr("CUDA_VISIBLE_DEVICES=\"\""));
  facts = StartFails(100);
  facts.nvml.devices[0].mig_enabled = 1;
  EXPECT_EQ(CauseOf(facts), "device_hidden");
}

TEST(CheckDevices, AFewOfAllVisibleIsNoProblemUnlessAnotherIsAskedFor) {
  GpuFacts facts = Healthy(2);
  facts.cuda.devices.erase(facts.cuda.devices.begin());
  facts.cuda.device_count = 1;
  facts.cuda_visible_devices = "1";
  EXPECT_EQ(CauseOf(facts), "");
  DeviceNeeds needs;
  needs.device = 1;
  EXPECT_EQ(CauseOf(facts, needs), "device_hidden");
}

TEST(CheckDevices, NotReadyIsToldByCodeAndMissingNode) {
  EXPECT_EQ(CauseOf(StartFails(802)), "device_not_ready");
  GpuFacts facts = StartFails(999);
  facts.nodes[1].exists = false;
  EXPECT_EQ(CauseOf(facts), "device_not_ready");
  EXPECT_THAT(DetailOf(facts), HasSubstr("/dev/nvidia-uvm is missing"));
}

TEST(CheckDevices, DeniedNodeExplainsVagueCodes) {
  for (const int64_t code : {100, 304, 999}) {
    GpuFacts facts = StartFails(code);
    facts.nodes[0].open_error = EPERM;
    EXPECT_EQ(CauseOf(facts), "cgroup_denied") << code;
    EXPECT_THAT(DetailOf(facts), HasSubstr("opening /dev/nvidiactl: Operation not permitted"));
  }
  EXPECT_EQ(CauseOf(StartFails(800)), "cgroup_denied");
  GpuFacts facts = StartFails(999);
  facts.nvml.failed = {"nvmlInit_v2", 17, ""};
  EXPECT_EQ(CauseOf(facts), "cgroup_denied");
}

TEST(CheckDevices, ResumeIsBlamedAfterASleepOnly) {
  GpuFacts facts = StartFails(999);
  facts.suspended_seconds = 3600;
  EXPECT_EQ(CauseOf(facts), "resume_broken");
}

TEST(CheckDevices, LostIsToldByNvmlXidOrContext) {
  for (const int64_t code : {15, 16}) {
    GpuFacts facts = StartFails(999);
    facts.nvml.devices[0].failed = {"nvmlDeviceGetHandleByIndex_v2", code, ""};
    EXPECT_EQ(CauseOf(facts), "device_lost");
  }
  GpuFacts facts = Healthy();
  facts.nvml.devices[0].xid = 79;
  EXPECT_EQ(CauseOf(facts), "device_lost");
  EXPECT_EQ(DetailOf(facts), "Xid 79");
  facts = Healthy();
  facts.cuda.devices[0].failed = {"cuDevicePrimaryCtxRetain", 214, "CUDA_ERROR_ECC_UNCORRECTABLE"};
  EXPECT_EQ(CauseOf(facts), "device_lost");
  facts = Healthy();
  facts.nvml.devices[0].xid = 31;  // a program's fault
  EXPECT_EQ(CauseOf(facts), "");
}

TEST(CheckDevices, ArchitectureIsComparedByMajorThenMinor) {
  GpuFacts facts = Healthy();
  facts.cuda.devices[0].cc_major = 7;
  EXPECT_EQ(CauseOf(facts), "arch_unsupported");
  EXPECT_THAT(DetailOf(facts), HasSubstr("7.5 is the oldest"));
  facts.cuda.devices[0].cc_minor = 5;
  EXPECT_EQ(CauseOf(facts), "");
  facts.cuda.devices[0].cc_major = 6;
  facts.cuda.devices[0].cc_minor = 9;
  EXPECT_EQ(CauseOf(facts), "arch_unsupported");
}

TEST(CheckDevices, ForeignMemoryIsWhatIsNotOurs) {
  GpuFacts facts = Healthy();
  device::NvmlDevice& device = facts.nvml.devices[0];
  device.memory_used_bytes = 10 * kGiB;
  EXPECT_EQ(CauseOf(facts), "vram_foreign");
  EXPECT_THAT(DetailOf(facts), HasSubstr("processes that NVML does not list"));
  device.processes = {{7, 9 * kGiB, "ollama"}};
  EXPECT_THAT(DetailOf(facts), HasSubstr("process 7 (ollama) 9216 MiB"));
  device.processes = {{8, 10 * kGiB, "spillway-gpu-wo"}};
  EXPECT_EQ(CauseOf(facts), "");
  device.processes.clear();
  device.memory_used_bytes = kGiB;  // a desktop
  EXPECT_EQ(CauseOf(facts), "");
}

TEST(CheckDevices, SlowIsWhatHeatOrTheBoardHoldsBack) {
  for (const uint64_t harmless : {0x0, 0x1, 0x2, 0x4, 0x100}) {
    GpuFacts facts = Healthy();
    facts.nvml.devices[0].throttle_reasons = harmless;
    EXPECT_EQ(CauseOf(facts), "") << harmless;
  }
  for (const uint64_t slow : {0x8, 0x20, 0x40, 0x80, 0x48}) {
    GpuFacts facts = Healthy();
    facts.nvml.devices[0].throttle_reasons = slow;
    EXPECT_EQ(CauseOf(facts), "slow_gpu") << slow;
  }
}

TEST(CheckDevices, ProbeThatDoesNotEndIsNamedWithItsStep) {
  GpuFacts facts = Healthy();
  facts.cuda = {};
  facts.cuda.run = {ChildEnd::kTimedOut, "cuInit", 0, "", 5.0};
  EXPECT_EQ(CauseOf(facts), "probe_timeout");
  EXPECT_THAT(DetailOf(facts), HasSubstr("cuInit did not return within 5.0 s"));
  facts.cuda.run = {ChildEnd::kCrashed, "cuDeviceGet", SIGSEGV, "", 0.1};
  EXPECT_EQ(CauseOf(facts), "probe_timeout");
  EXPECT_THAT(DetailOf(facts), HasSubstr("crashed in cuDeviceGet (signal 11"));
  facts = Healthy();
  facts.nvml.run = {ChildEnd::kTimedOut, "nvmlInit_v2", 0, "", 5.0};
  EXPECT_EQ(CauseOf(facts), "probe_timeout");
}

TEST(CheckDevices, GarbageOfNvmlIsUnknownWithTheFigures) {
  GpuFacts facts = Healthy();
  facts.nvml.device_count = 0xffffffff;
  EXPECT_EQ(CauseOf(facts), "unknown");
  EXPECT_THAT(DetailOf(facts), HasSubstr("4294967295 devices"));
  facts = Healthy();
  facts.nvml.devices[0].implausible = "temperature power";
  EXPECT_EQ(CauseOf(facts), "unknown");
  EXPECT_THAT(DetailOf(facts), HasSubstr("temperature power"));
}

TEST(CheckDevices, AnotherDevicesTroubleIsNotOurs) {
  GpuFacts facts = Healthy(2);
  facts.nvml.devices[1].xid = 79;
  facts.cuda.devices[1].cc_major = 5;
  DeviceNeeds needs;
  needs.device = 0;
  EXPECT_EQ(CauseOf(facts, needs), "");
  needs.device = 1;
  EXPECT_EQ(CauseOf(facts, needs), "arch_unsupported");
}

TEST(FirstObstacle, PassesWhatAWorkerCanLiveWith) {
  GpuFacts facts = Healthy();
  facts.nvml.devices[0].throttle_reasons = 0x40;
  facts.nvml.devices[0].memory_used_bytes = 20 * kGiB;
  facts.nvml.library_error = "libnvidia-ml.so.1: cannot open shared object file";
  EXPECT_EQ(CauseOf(facts), "driver_absent");
  EXPECT_EQ(FirstObstacle(CheckDevices(facts, {})), nullptr);
  facts.nvml.run.end = ChildEnd::kTimedOut;
  EXPECT_EQ(FirstObstacle(CheckDevices(facts, {})), nullptr);
  facts.nvml.devices[0].xid = 79;
  const auto checks = CheckDevices(facts, {});
  ASSERT_NE(FirstObstacle(checks), nullptr);
  EXPECT_EQ(FirstObstacle(checks)->cause, "device_lost");
}

TEST(ExamineDevices, TriesAgainOnlyWhileNotReady) {
  size_t reads = 0;
  const auto ready_at_third = [&] { return ++reads < 3 ? StartFails(802) : Healthy(); };
  const Examination ready = ExamineDevices(ready_at_third, {}, std::chrono::seconds(60));
  EXPECT_EQ(ready.attempts, 3u);
  EXPECT_EQ(FirstProblem(ready.checks), nullptr);
  const Examination never =
      ExamineDevices([] { return StartFails(802); }, {}, std::chrono::milliseconds(150));
  EXPECT_GE(never.attempts, 1u);
  EXPECT_EQ(FirstProblem(never.checks)->cause, "device_not_ready");
  EXPECT_EQ(ExamineDevices([] { return StartFails(803); }, {}, std::chrono::seconds(60)).attempts, 1u);
}

TEST(Describe, HasCauseDetailAndRemedy) {
  const std::string text = Describe({"driver start", "driver_mismatch", "cuInit returned 803"});
  EXPECT_THAT(text, HasSubstr("cause=driver_mismatch (F2) driver start: cuInit returned 803."));
  EXPECT_THAT(text, HasSubstr(std::string(FindCause("driver_mismatch")->remedy)));
}

}  // namespace
}  // namespace spillway::truth
