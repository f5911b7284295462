// Goal: the gateway's command line says what is wrong with it. Method: parsed in process.
#include "gateway/options.h"

#include <gtest/gtest.h>

namespace spillway::gateway {
namespace {

ParsedOptions Parse(std::vector<const char*> arguments) {
  // A file that exists stands for the model.
  arguments.insert(arguments.begin(),
                   {"spillway-gateway", "--model", "README.md", "--gpu-worker", "127.0.0.1:1"});
  return ParseOptions(static_cast<int>(arguments.size()), arguments.data());
}

TEST(GatewayOptions, NamesAndOriginsForBrowsersAreRead) {
  const ParsedOptions parsed = Parse({"--allowed-host", "chat.example", "--allowed-host=10.0.0.7",
                                      "--allowed-origin", "https://chat.example", "--allowed-origin=*"});
  ASSERT_TRUE(parsed.options.has_value());
  EXPECT_EQ(parsed.options->access.hosts, (std::vector<std::string>{"chat.example", "10.0.0.7"}));
  EXPECT_EQ(parsed.options->access.origins, (std::vector<std::string>{"https://chat.example", "*"}));
  EXPECT_TRUE(Parse({}).options->access.hosts.empty());
}

TEST(GatewayOptions, WhatIsNoNameOrOriginIsAUsageError) {
  EXPECT_EQ(Parse({"--allowed-host", "http://chat.example"}).exit_code, 2);
  EXPECT_EQ(Parse({"--allowed-origin", "chat.example"}).exit_code, 2);
  EXPECT_EQ(Parse({"--allowed-origin", "https://chat.example/"}).exit_code, 2);
}

}  // namespace
}  // namespace spillway::gateway
