// Facts from a made-up machine: folders of /proc and /sys under a temporary root.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "device/energy.h"
#include "device/host.h"
#include "device/nvidia.h"
#include "device/process.h"

namespace spillway::device {
namespace {

class FakeMachine : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "spillway_device_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void Put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder_ + path).parent_path());
    std::ofstream(folder_ + path) << text;
  }
  void PutPci(const std::string& address, const std::string& vendor, const std::string& device_class) {
    Put("/sys/bus/pci/devices/" + address + "/vendor", vendor + "\n");
    Put("/sys/bus/pci/devices/" + address + "/class", device_class + "\n");
    Put("/sys/bus/pci/devices/" + address + "/device", "0x2204\n");
  }
  Root root() const { return Root(folder_); }
  std::string folder_;
};

using Nvidia = FakeMachine;
using Host = FakeMachine;
using Process = FakeMachine;
using Energy = FakeMachine;

TEST_F(Nvidia, IsAbsentOnAnEmptyMachine) {
  const NvidiaFacts facts = ReadNvidia(root());
  EXPECT_FALSE(facts.present());
  EXPECT_FALSE(facts.driver_loaded);
}

TEST_F(Nvidia, DriverVersionComesFromTheKernelModule) {
  Put("/proc/driver/nvidia/version",
      "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\nGCC "
      "version: 12.2\n");
  const NvidiaFacts facts = ReadNvidia(root());
  EXPECT_TRUE(facts.present());
  EXPECT_EQ(facts.driver_version, "535.183.01");
}

TEST_F(Nvidia, OnlyDisplayDevicesOfTheVendorCount) {
  PutPci("0000:01:00.0", "0x10de", "0x030000");
  PutPci("0000:01:00.1", "0x10de", "0x040300");  // the card's audio function
  PutPci("0000:02:00.0", "0x1002", "0x030000");  // another vendor
  PutPci("0000:03:00.0", "0x10de", "0x030200");  // 3D controller
  const NvidiaFacts facts = ReadNvidia(root());
  EXPECT_FALSE(facts.driver_loaded);
  ASSERT_EQ(facts.displays.size(), 2u);
  EXPECT_EQ(facts.displays[0].address, "0000:01:00.0");
  EXPECT_EQ(facts.displays[0].device, "0x2204");
  EXPECT_EQ(facts.displays[1].address, "0000:03:00.0");
}

TEST_F(Host, ReadsProcessorCoresAndMemory) {
  Put("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\nmodel name\t: other\n");
  Put("/proc/self/status", "Name:\tx\nCpus_allowed:\tf\nCpus_allowed_list:\t0-2,5\n");
  Put("/proc/meminfo", "MemTotal:       8000 kB\nMemFree: 10 kB\nMemAvailable:   6000 kB\n");
  const HostFacts facts = ReadHost(root());
  EXPECT_EQ(facts.cpu_name, "Some CPU @ 2.0GHz");
  EXPECT_EQ(facts.cpus_allowed, 4u);
  EXPECT_EQ(facts.TotalBytes(), 8000u * 1024);
  EXPECT_EQ(facts.AvailableBytes(), 6000u * 1024);
  EXPECT_EQ(facts.cpu_quota, 0);
}

TEST_F(Host, TakesTheTightestCgroupV2LimitOfAllParents) {
  Put("/proc/meminfo", "MemTotal: 8000 kB\nMemAvailable: 6000 kB\n");
  Put("/sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
  Put("/proc/self/cgroup", "0::/outer/inner\n");
  Put("/sys/fs/cgroup/outer/inner/memory.max", "max\n");
  Put("/sys/fs/cgroup/outer/inner/cpu.max", "150000 100000\n");
  Put("/sys/fs/cgroup/outer/memory.max", "1000000\n");
  Put("/sys/fs/cgroup/outer/memory.current", "700000\n");
  Put("/sys/fs/cgroup/outer/memory.stat", "anon 1\ninactive_file 100000\n");
  const HostFacts facts = ReadHost(root());
  EXPECT_EQ(facts.cgroup_limit_bytes, 1000000u);
  EXPECT_EQ(facts.TotalBytes(), 1000000u);
  EXPECT_EQ(facts.AvailableBytes(), 400000u);
  EXPECT_EQ(facts.cpu_quota, 1.5);
}

TEST_F(Host, ReadsCgroupV1AndItsHugeNoLimit) {
  Put("/proc/meminfo", "MemTotal: 8000 kB\nMemAvailable: 6000 kB\n");
  Put("/proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/a\n");
  Put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "500000\n");
  Put("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "500000\n");
  Put("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
  Put("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  const HostFacts facts = ReadHost(root());
  EXPECT_EQ(facts.cgroup_limit_bytes, 500000u);
  EXPECT_EQ(facts.AvailableBytes(), 0u);
  EXPECT_EQ(facts.cpu_quota, 0);
}

TEST_F(Host, AnUnreadableMachineGivesZeros) {
  const HostFacts facts = ReadHost(root());
  EXPECT_EQ(facts.TotalBytes(), 0u);
  EXPECT_EQ(facts.cpu_name, "");
}

TEST_F(Process, CountsFieldsFromTheEndOfTheCommand) {
  Put("/proc/stat", "cpu 1 2 3\nbtime 1000\nprocesses 5\n");
  Put("/proc/42/stat",
      "42 (a) b (c)) S 1 42 42 0 -1 0 11 0 77 0 150 50 0 0 20 0 3 0 500 123456 10 18446744073709551615 0\n");
  Put("/proc/42/fd/0", "");
  Put("/proc/42/fd/1", "");
  const ProcessFacts facts = ReadProcess(root(), "42");
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  ASSERT_TRUE(facts.known);
  EXPECT_EQ(facts.major_faults, 77u);
  EXPECT_DOUBLE_EQ(facts.cpu_seconds, 200 / ticks);
  EXPECT_EQ(facts.virtual_bytes, 123456u);
  EXPECT_EQ(facts.resident_bytes, 10u * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
  EXPECT_DOUBLE_EQ(facts.start_unix_seconds, 1000 + 500 / ticks);
  EXPECT_EQ(facts.open_fds, 2u);
}

TEST_F(Process, IsUnknownWhenItIsGone) { EXPECT_FALSE(ReadProcess(root(), "43").known); }

TEST(RealMachine, KnowsItself) {
  const ProcessFacts process = ReadProcess(Root());
  ASSERT_TRUE(process.known);
  EXPECT_GT(process.resident_bytes, 0u);
  EXPECT_GE(process.open_fds, 3u);
  const HostFacts host = ReadHost(Root());
  EXPECT_GT(host.TotalBytes(), 0u);
  EXPECT_GT(host.cpus_allowed, 0u);
}

TEST_F(Energy, SumsThePackagesOverTheirWrapsAndLeavesTheirPartsOut) {
  const auto package = [&](const std::string& name, const std::string& energy) {
    Put("/sys/class/powercap/" + name + "/max_energy_range_uj", "10000000\n");
    Put("/sys/class/powercap/" + name + "/energy_uj", energy + "\n");
  };
  package("intel-rapl:0", "9000000");
  package("intel-rapl:0:0", "5");  // the cores, counted in the package
  package("intel-rapl:1", "1000000");
  EnergyMeter meter(root());
  EXPECT_DOUBLE_EQ(meter.Joules().value(), 0);
  package("intel-rapl:0", "500000");  // wrapped: 1.5 J
  package("intel-rapl:0:0", "9000000");
  package("intel-rapl:1", "3000000");
  EXPECT_DOUBLE_EQ(meter.Joules().value(), 3.5);
  package("intel-rapl:1", "3500000");
  EXPECT_DOUBLE_EQ(meter.Joules().value(), 4.0);
}

TEST_F(Energy, IsUnknownWithoutCountersOrWhenOneCannotBeRead) {
  EXPECT_FALSE(EnergyMeter(root()).Joules().has_value());
  Put("/sys/class/powercap/intel-rapl:0/energy_uj", "1\n");  // no range
  EXPECT_FALSE(EnergyMeter(root()).Joules().has_value());
}

}  // namespace
}  // namespace spillway::device
