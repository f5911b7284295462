// What error codes of the driver's two libraries mean in causes.
#pragma once

#include <string_view>

#include "device/gpu.h"

namespace spillway::truth {

// Of the CUDA driver's code; some codes say nothing without the other facts.
std::string_view CauseOfCuda(int64_t code, const device::GpuFacts& facts);
std::string_view CauseOfNvml(int64_t code, const device::GpuFacts& facts);

// A device node is there and may not be opened; nullptr when all that are there may be.
const device::DeviceNode* DeniedNode(const device::GpuFacts& facts);

// Xids after which the device must be reset or replaced; others blame a program.
bool IsFatalXid(uint64_t xid);

}  // namespace spillway::truth
