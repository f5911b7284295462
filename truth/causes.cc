// The one table of causes; docs/runbook.md, metrics and messages read it.
#include <algorithm>
#include <array>

#include "truth/verdict.h"

namespace spillway::truth {
namespace {

constexpr std::array<CauseInfo, 22> kCauses = {{
    {"F0", "unknown", "Plan and reality disagree and no rule knows why.",
     "Read the two figures in the detail, compare `spillway ps` with the worker's log, restart the worker; "
     "if it "
     "returns, report it with both.",
     true},
    {"F1", "driver_absent", "No NVIDIA driver is loaded, or its library cannot be opened.",
     "Install or load the NVIDIA driver; in a container start it with the GPU runtime.", true},
    {"F2", "driver_mismatch", "The kernel module and the driver library have different versions.",
     "Reboot or reload the nvidia modules; hold driver updates back while workers run.", true},
    {"F3", "driver_too_old", "The driver is older than this build needs.",
     "Upgrade the driver, or use a build for an older CUDA.", true},
    {"F4", "device_not_ready", "The device was not usable when the worker started.",
     "Start the worker after the device (unit ordering); it retries with back-off and then exits.", true},
    {"F5", "device_hidden", "The driver sees a device that this process may not see.",
     "Correct CUDA_VISIBLE_DEVICES, the MIG selection or the device's UUID.", true},
    {"F6", "cgroup_denied", "The device node exists but opening it is not permitted any more.",
     "Restart the container; use CDI (container toolkit 1.18 or newer) or the cgroupfs driver.", true},
    {"F7", "resume_broken", "The device stopped working after the machine was suspended.",
     "Reload nvidia_uvm, or keep video memory over suspend by the driver's option.", true},
    {"F8", "device_lost", "The device fell off the bus or needs a reset.",
     "Drain the node, read dmesg for Xid events, reset or replace the card.", true},
    {"F9", "arch_unsupported", "This build has no code for the device's architecture.",
     "Use a build that includes the device's compute capability.", true},
    {"F10", "backend_missing", "This program was built without the backend that the plan asks for.",
     "Run the GPU worker as --device host with a --vram-budget: no build has the CUDA backend yet.", true},
    {"F11", "op_unsupported", "Layers planned for one device were executed on another kind.",
     "Look at the operation and type in the detail; choose a supported type, or plan those layers elsewhere.",
     true},
    {"F12", "vram_short_model",
     "Weights, state and work space do not fit although nobody else uses the memory.",
     "Use a smaller quantization, fewer resident layers, or more memory.", true},
    {"F13", "vram_short_context", "The model would fit with a smaller context or fewer sequences.",
     "Lower --ctx-size or --parallel, or quantize the state.", true},
    {"F14", "vram_foreign", "Another process holds memory that the plan counted on.",
     "Stop the other process or reserve its share (--vram-budget).", true},
    {"F15", "vram_not_recovered", "Memory of a process that has ended is still in use.",
     "Wait or find the holder; then restart the worker.", true},
    {"F16", "alloc_failed", "An allocation that the plan had counted was refused.",
     "Compare planned and free memory; raise the reserve or lower the budget, then restart the worker.",
     true},
    {"F17", "managed_spill", "The driver moves device memory to the host behind our back.",
     "Turn the driver's system-memory policy off, or keep fewer layers resident.", true},
    {"F18", "probe_timeout", "Opening the device did not end: it took longer than its deadline, or crashed.",
     "Look for the device in dmesg and reinstall the driver if its library crashes; raise the deadline if it "
     "is only slow.",
     true},
    {"F19", "requested_cpu", "The operator asked for the CPU.", "Nothing to do; it is what was asked for.",
     false},
    {"F20", "worker_unreachable", "The worker does not answer.",
     "Check that the worker runs and its address and port are right; `spillway up` restarts it by itself.",
     true},
    {"F21", "slow_gpu", "The device executes as planned, but much slower than its baseline.",
     "Look at temperature, power limit and clocks.", false},
}};

}  // namespace

std::span<const CauseInfo> Causes() { return kCauses; }

const CauseInfo* FindCause(std::string_view name) {
  const auto found =
      std::find_if(kCauses.begin(), kCauses.end(), [name](const CauseInfo& c) { return c.name == name; });
  return found == kCauses.end() ? nullptr : &*found;
}

}  // namespace spillway::truth
