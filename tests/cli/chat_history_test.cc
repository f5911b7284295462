// Which turns a chat still remembers: token counts as the API reports them go in, messages come out.
#include "cli/run/chat_history.h"

#include <gtest/gtest.h>

namespace spillway::cli {
namespace {

std::vector<std::string> Contents(const ChatHistory& history) {
  std::vector<std::string> contents;
  for (const auto& message : history.Messages("next")) contents.push_back(message["content"]);
  return contents;
}

using Strings = std::vector<std::string>;

TEST(ChatHistory, AsksWithTheSystemMessageAndEveryTurnInOrder) {
  ChatHistory history("be brief", 100);
  history.Add("q1", "a1", 10);
  const auto messages = history.Messages("q2");
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[0]["role"], "system");
  EXPECT_EQ(messages[1]["role"], "user");
  EXPECT_EQ(messages[2]["role"], "assistant");
  EXPECT_EQ(messages[3]["content"], "q2");
  EXPECT_EQ(Contents(ChatHistory("", 100)), Strings({"next"}));
}

TEST(ChatHistory, ForgetsTheOldestTurnsUntilHalfTheContextIsFree) {
  ChatHistory history("sys", 100);
  history.Add("q1", "a1", 30);
  history.Add("q2", "a2", 50);
  history.Add("q3", "a3", 75);
  EXPECT_EQ(history.MakeRoom(), 0u);  // three quarters are not past three quarters
  history.Add("q4", "a4", 90);
  EXPECT_EQ(history.MakeRoom(), 2u);  // 90, 60, 40
  EXPECT_EQ(Contents(history), Strings({"sys", "q3", "a3", "q4", "a4", "next"}));
  EXPECT_EQ(history.MakeRoom(), 0u);
}

TEST(ChatHistory, OneTurnAsLongAsTheContextIsForgotten) {
  ChatHistory history("sys", 100);
  history.Add("q1", "a1", 100);
  EXPECT_EQ(history.MakeRoom(), 1u);
  EXPECT_EQ(Contents(history), Strings({"sys", "next"}));
}

TEST(ChatHistory, ForgettingOnDemandEndsAndClearKeepsTheSystemMessage) {
  ChatHistory history("sys", 1000);
  history.Add("q1", "a1", 30);
  history.Add("q2", "a2", 20);  // fewer than before: a template that drops old thoughts
  EXPECT_TRUE(history.ForgetOldest());
  EXPECT_TRUE(history.ForgetOldest());
  EXPECT_FALSE(history.ForgetOldest());
  history.Add("q3", "a3", 30);
  history.Clear();
  EXPECT_EQ(Contents(history), Strings({"sys", "next"}));
}

}  // namespace
}  // namespace spillway::cli
