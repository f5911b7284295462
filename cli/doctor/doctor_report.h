// What `spillway doctor` found, as text for people and as one JSON object.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "device/host.h"
#include "truth/device_checks.h"

namespace spillway::cli {

struct DoctorFindings {
  device::HostFacts host;
  std::string isa;
  uint32_t processors = 0;  // of the machine
  truth::Examination gpu;
};

// 0 when all is well or there is no NVIDIA device, else 10 + the number of the first problem's cause.
int DoctorExitCode(const DoctorFindings& findings);

std::string DoctorText(const DoctorFindings& findings);
nlohmann::ordered_json DoctorJson(const DoctorFindings& findings);

}  // namespace spillway::cli
