// A log line stays one line, whatever a peer put into the message.
#include <gtest/gtest.h>

#include "telemetry/logging_format.h"

namespace spillway::telemetry {
namespace {

TEST(Logging, QuotesFreeText) { EXPECT_EQ(FormatMessage("a \"b\" c\\d"), "msg=\"a \\\"b\\\" c\\\\d\""); }

TEST(Logging, KeepsKeyValueText) {
  EXPECT_EQ(FormatMessage("event=request outcome=ok"), "event=request outcome=ok");
}

TEST(Logging, EscapesControlCharacters) {
  EXPECT_EQ(FormatMessage("a\nlevel=error\x1b[0m"), "msg=\"a\\nlevel=error\\x1b[0m\"");
  EXPECT_EQ(FormatMessage("event=x a=1\nb=2"), "event=x a=1\\nb=2");
}

}  // namespace
}  // namespace spillway::telemetry
