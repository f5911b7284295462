// The probes through the real dlopen path, against the stand-ins: every fact arrives, every way to fail is
// told with its call, and nothing that a library does reaches this process.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "device/gpu.h"
#include "device/nvml_api.h"
#include "tests/support/stand_in/machine.h"

namespace spillway::device {
namespace {

constexpr char kStandIns[] = SPILLWAY_STAND_INS;
constexpr uint64_t kGiB = uint64_t{1} << 30;

class GpuProbe : public ::testing::Test {
 protected:
  GpuFacts Read(const std::string& scenario = "") {
    machine_.Says(scenario);
    return ReadGpu(machine_.Options(kStandIns));
  }
  stand_in::Machine machine_;
};

TEST(NvmlApi, StructuresHaveThePublishedSizes) {
  EXPECT_EQ(sizeof(nvml::PciInfo), 68u);
  EXPECT_EQ(sizeof(nvml::Memory), 24u);
  EXPECT_EQ(sizeof(nvml::MemoryV2), 40u);
  EXPECT_EQ(nvml::kMemoryV2, 0x02000028u);
  EXPECT_EQ(sizeof(nvml::ProcessInfo), 24u);
  EXPECT_EQ(sizeof(nvml::EventData), 32u);
}

TEST_F(GpuProbe, HealthyDriverTellsEveryFact) {
  const GpuFacts facts = Read("devices = 2\ndevice.1.name = Second\ndevice.0.process_pid = 1\n");
  EXPECT_TRUE(facts.present());
  ASSERT_TRUE(facts.cuda.usable()) << facts.cuda.library_error;
  EXPECT_EQ(facts.cuda.driver_version, 13000u);
  EXPECT_EQ(facts.cuda.library, std::string(kStandIns) + "/libcuda.so.1");
  ASSERT_EQ(facts.cuda.devices.size(), 2u);
  const CudaDevice& cuda = facts.cuda.devices[0];
  EXPECT_EQ(cuda.name, "Stand-in GPU");
  EXPECT_EQ(cuda.cc_major, 9u);
  EXPECT_EQ(cuda.cc_minor, 0u);
  EXPECT_EQ(cuda.memory_bytes, 24 * kGiB);
  EXPECT_EQ(cuda.free_bytes, 24 * kGiB);
  EXPECT_EQ(cuda.uuid, "GPU-10101010-1010-1010-1010-101010101010");
  EXPECT_EQ(cuda.pci_address, "0000:01:00.0");
  EXPECT_FALSE(cuda.failed.code);
  ASSERT_TRUE(facts.nvml.usable()) << facts.nvml.library_error;
  EXPECT_EQ(facts.nvml.driver_version, "580.65.06");
  EXPECT_EQ(facts.nvml.nvml_version, "13.580.65.06");
  EXPECT_EQ(facts.nvml.cuda_version, 13000u);
  ASSERT_EQ(facts.nvml.devices.size(), 2u);
  EXPECT_EQ(facts.nvml.devices[1].name, "Second");
  const NvmlDevice& nvml = facts.nvml.devices[0];
  EXPECT_EQ(nvml.uuid, cuda.uuid);
  EXPECT_EQ(nvml.pci_address, "00000000:01:00.0");
  EXPECT_EQ(nvml.memory_total_bytes, 24 * kGiB);
  EXPECT_EQ(nvml.memory_used_bytes, 0u);
  EXPECT_EQ(nvml.memory_reserved_bytes, kGiB / 4);
  EXPECT_EQ(nvml.utilization, 0u);
  EXPECT_EQ(nvml.temperature, 40u);
  EXPECT_DOUBLE_EQ(nvml.power_watts.value(), 60);
  EXPECT_DOUBLE_EQ(nvml.power_limit_watts.value(), 350);
  EXPECT_DOUBLE_EQ(nvml.energy_joules.value(), 1000);
  EXPECT_EQ(nvml.clock_sm, 1700u);
  EXPECT_EQ(nvml.clock_memory_max, 9500u);
  EXPECT_EQ(nvml.throttle_reasons, 1u);
  EXPECT_EQ(nvml.pcie_generation, 4u);
  EXPECT_EQ(nvml.pcie_width_max, 16u);
  EXPECT_EQ(nvml.ecc_uncorrected, 0u);
  EXPECT_EQ(nvml.mig_enabled, 0u);
  EXPECT_FALSE(nvml.xid);
  EXPECT_EQ(nvml.implausible, "");
  EXPECT_FALSE(nvml.failed.code) << nvml.failed.call;
  ASSERT_EQ(nvml.processes.size(), 1u);
  EXPECT_EQ(nvml.processes[0].pid, 1u);
  EXPECT_FALSE(nvml.processes[0].bytes);  // not known, not 2^64 - 1
}

TEST_F(GpuProbe, ProcessesAreNamedWhereTheyCanBeSeen) {
  machine_.Put("/proc/4711/comm", "ollama\n");
  const GpuFacts facts = Read("device.0.process_pid = 4711\ndevice.0.process_bytes = 5000\n");
  ASSERT_EQ(facts.nvml.devices.at(0).processes.size(), 1u);
  EXPECT_EQ(facts.nvml.devices[0].processes[0].name, "ollama");
  EXPECT_EQ(facts.nvml.devices[0].processes[0].bytes, 5000u);
}

TEST_F(GpuProbe, AbsentLibrariesAreAFactInTheLoadersWords) {
  const GpuFacts facts = ReadGpu(machine_.Options(machine_.File("nothing")));
  EXPECT_NE(facts.cuda.library_error.find("libcuda.so.1"), std::string::npos);
  EXPECT_NE(facts.nvml.library_error.find("libnvidia-ml.so.1"), std::string::npos);
  EXPECT_EQ(facts.cuda.run.end, ChildEnd::kDone);
  EXPECT_FALSE(facts.cuda.usable());
  EXPECT_FALSE(facts.nvml.usable());
}

TEST_F(GpuProbe, ARelativeFolderOfLibrariesIsNotSearched) {
  const GpuFacts facts = ReadGpu(machine_.Options("stand-in"));
  EXPECT_EQ(facts.cuda.library_error, "stand-in is no absolute path");
}

TEST_F(GpuProbe, ALibraryWithoutItsFunctionsIsNamed) {
  std::filesystem::create_directories(machine_.File("wrong"));
  std::filesystem::copy(std::string(kStandIns) + "/libnvidia-ml.so.1", machine_.File("wrong/libcuda.so.1"));
  const GpuFacts facts = ReadGpu(machine_.Options(machine_.File("wrong")));
  EXPECT_NE(facts.cuda.library_error.find("has no cuDriverGetVersion"), std::string::npos);
}

TEST_F(GpuProbe, AFailingCallIsToldWithItsCodeAndName) {
  const GpuFacts facts = Read("call.cuInit = fail 803\ncall.nvmlInit_v2 = fail 18\n");
  EXPECT_EQ(facts.cuda.failed.call, "cuInit");
  EXPECT_EQ(facts.cuda.failed.code, 803);
  EXPECT_EQ(facts.cuda.failed.name, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH");
  EXPECT_EQ(facts.cuda.driver_version, 13000u);  // answered all the same
  EXPECT_EQ(facts.nvml.failed.call, "nvmlInit_v2");
  EXPECT_EQ(facts.nvml.failed.code, 18);
}

TEST_F(GpuProbe, ADeviceThatFailsOnlyWithAContextIsToldByDevice) {
  const GpuFacts facts =
      Read("call.cuDevicePrimaryCtxRetain = fail 214\ncall.nvmlDeviceGetMemoryInfo_v2 = fail 15\n");
  ASSERT_EQ(facts.cuda.devices.size(), 1u);
  EXPECT_EQ(facts.cuda.devices[0].failed.code, 214);
  EXPECT_EQ(facts.cuda.devices[0].name, "Stand-in GPU");
  ASSERT_EQ(facts.nvml.devices.size(), 1u);
  EXPECT_EQ(facts.nvml.devices[0].failed.code, 15);
}

TEST_F(GpuProbe, ACrashOrAHangStaysInTheChild) {
  machine_.Says("call.cuInit = crash\ncall.nvmlDeviceGetPowerUsage = hang\n");
  GpuOptions options = machine_.Options(kStandIns);
  options.probe.deadline = std::chrono::milliseconds(300);
  const GpuFacts facts = ReadGpu(options);
  EXPECT_EQ(facts.cuda.run.end, ChildEnd::kCrashed);
  EXPECT_EQ(facts.cuda.run.step, "cuInit");
  EXPECT_EQ(facts.nvml.run.end, ChildEnd::kTimedOut);
  EXPECT_EQ(facts.nvml.run.step, "nvmlDeviceGetPowerUsage");
}

TEST_F(GpuProbe, GarbageIsDroppedAndNamed) {
  const GpuFacts facts = Read("garbage = yes\n");
  EXPECT_EQ(facts.nvml.run.end, ChildEnd::kDone);
  EXPECT_EQ(facts.nvml.device_count, 0xffffffffu);
  ASSERT_LE(facts.nvml.devices.size(), kMostDevices);
  ASSERT_FALSE(facts.nvml.devices.empty());
  const NvmlDevice& device = facts.nvml.devices[0];
  EXPECT_FALSE(device.memory_total_bytes);
  EXPECT_FALSE(device.utilization);
  EXPECT_FALSE(device.power_watts);
  EXPECT_NE(device.implausible.find("memory_total"), std::string::npos);
  EXPECT_EQ(device.name.find_first_not_of('?'), std::string::npos);
}

TEST_F(GpuProbe, VariablesAndTheVisibleSubsetAreFacts) {
  setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  const GpuFacts some = Read("devices = 2\n");
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  const GpuFacts none = Read("devices = 2\n");
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(some.cuda.device_count, 1u);
  EXPECT_EQ(some.nvml.device_count, 2u);
  EXPECT_EQ(some.cuda_visible_devices, "1");
  EXPECT_EQ(none.cuda.failed.code, 100);
  EXPECT_EQ(none.cuda_visible_devices, "");
}

TEST_F(GpuProbe, AnEventWhileListeningIsKept) {
  EXPECT_EQ(Read("device.0.xid = 79\n").nvml.devices.at(0).xid, 79u);
}

TEST_F(GpuProbe, NodesThatMayNotBeOpenedAreTold) {
  chmod(machine_.At("/dev/nvidia0").c_str(), 0);
  // Root may open anything; anybody else stands in for a process that the device cgroup refuses.
  Fields fields;
  const bool root = geteuid() == 0;
  if (root) chmod(std::filesystem::path(machine_.File("x")).parent_path().c_str(), 0755);
  RunInChild(
      [&](Report& report) {
        if (root && seteuid(65534) != 0) return;
        const GpuFacts facts = ReadGpu(machine_.Options("/nonexistent"));
        for (const DeviceNode& node : facts.nodes) {
          report.Put(node.path, std::optional<int64_t>(node.exists ? node.open_error : -1));
        }
      },
      std::chrono::seconds(60), &fields);
  EXPECT_EQ(fields["/dev/nvidia0"], std::to_string(EACCES));
  EXPECT_EQ(fields.count("/dev/nvidiactl"), 1u);
}

TEST_F(GpuProbe, AMachineWithoutADeviceIsNotPresent) {
  for (const char* path : {"/proc", "/sys", "/dev"}) machine_.Remove(path);
  EXPECT_FALSE(ReadGpu(machine_.Options("/nonexistent")).present());
}

}  // namespace
}  // namespace spillway::device
