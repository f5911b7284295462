// One line per event on stderr: ts= level= service= and the message. A message that begins with "event=" is
// already key=value text and is appended as it is; any other is quoted as msg="...". Control characters are
// escaped, so that nothing a peer sent can begin a line of its own.
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <string_view>

#include "telemetry/logging_format.h"
#include "telemetry/registry.h"

namespace spillway::telemetry {
namespace {

class MessageFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const std::string text = FormatMessage({message.payload.data(), message.payload.size()});
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<MessageFlag>(); }
};

}  // namespace

std::string FormatMessage(std::string_view message) {
  const bool structured = message.substr(0, 6) == "event=";
  std::string out = structured ? "" : "msg=\"";
  for (const char c : message) {
    if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else if (!structured && (c == '"' || c == '\\')) {
      out += '\\';
      out += c;
    } else {
      out += c;
    }
  }
  if (!structured) out += '"';
  return out;
}

void SetUpLogging(const std::string& service) {
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<MessageFlag>('*').set_pattern("ts=%Y-%m-%dT%H:%M:%S.%e%z level=%l service=" + service +
                                                    " %*");
  auto logger = std::make_shared<spdlog::logger>(service, std::move(sink));
  logger->set_formatter(std::move(formatter));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));

  const char* wanted = std::getenv("SPILLWAY_LOG");
  const std::string name = wanted == nullptr ? "info" : wanted;
  const spdlog::level::level_enum level = spdlog::level::from_str(name);
  if (level == spdlog::level::off && name != "off") {  // from_str answers "off" to names it does not know
    spdlog::set_level(spdlog::level::info);
    spdlog::warn("SPILLWAY_LOG={} is not a level (trace debug info warn error off); using info", name);
    return;
  }
  spdlog::set_level(level);
}

}  // namespace spillway::telemetry
