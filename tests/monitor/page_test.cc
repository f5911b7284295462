// The page and its JSON: the facts are there, and a peer's text cannot become markup.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "monitor/page/board.h"
#include "tests/monitor/samples.h"

namespace spillway::monitor {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Board BoardOf(const v1::DescribeReply& reply) {
  Board board;
  board.unix_seconds = 1706702400;
  board.gateway_configured = board.gateway_up = true;
  board.cluster.set_model("tiny");
  board.cluster.set_ready(true);
  board.cluster.set_n_layer(30);
  WorkerView& worker = board.workers.emplace_back();
  worker.target = {"cpu-worker-0", "127.0.0.1:50100"};
  worker.reachable = worker.ever_reached = true;
  worker.reply = reply;
  worker.layers_executed = 10;
  return board;
}

TEST(Page, ShowsModelPlacementAndMemory) {
  const std::string html = RenderHtml(BoardOf(HealthyReply()));
  EXPECT_THAT(html, HasSubstr("<h1>tiny</h1>"));
  EXPECT_THAT(html, HasSubstr("embedding + layers 0-9"));
  EXPECT_THAT(html, HasSubstr("3.0 MiB"));
  EXPECT_THAT(html, HasSubstr("<span class=\"tag good\">ready</span>"));
  EXPECT_THAT(html, HasSubstr("As of 2024-01-31 12:00:00Z"));
  EXPECT_THAT(html, HasSubstr("name=\"viewport\""));
  EXPECT_THAT(html, Not(HasSubstr("class=\"alarm\"")));
  EXPECT_THAT(html, Not(HasSubstr("http://")));  // no external asset
  EXPECT_THAT(html, Not(HasSubstr("https://")));
}

TEST(Page, ShowsCauseDetailAndRemedyOfAFallback) {
  Board board = BoardOf(HealthyReply());
  board.workers[0].verdict = {truth::Extent::kPartial, "alloc_failed", "layers: 10 planned, 6 loaded",
                              "free memory"};
  board.events.push_front(
      {1706702400, "cpu-worker-0", "", "alloc_failed", "partial", "layers: 10 planned", "free"});
  const std::string html = RenderHtml(board);
  EXPECT_THAT(html, HasSubstr("cpu-worker-0: partial fallback, alloc_failed"));
  EXPECT_THAT(html, HasSubstr("layers: 10 planned, 6 loaded"));
  EXPECT_THAT(html, HasSubstr("What to do: free memory"));
  EXPECT_THAT(html, HasSubstr("as planned → alloc_failed"));
  EXPECT_THAT(html, HasSubstr("<span class=\"tag bad\">partial fallback</span>"));
}

TEST(Page, TheHeadlineFollowsTheWorstState) {
  const auto headline = [](const Board& board) {
    const std::string html = RenderHtml(board);
    const size_t begin = html.find("</h1>");
    return html.substr(begin, html.find("</p>", begin) - begin);
  };
  Board board = BoardOf(HealthyReply());
  EXPECT_THAT(headline(board), HasSubstr("tag good\">ready"));
  board.workers[0].verdict = {truth::Extent::kPartial, "alloc_failed", "detail", "remedy"};
  EXPECT_THAT(headline(board), HasSubstr("tag bad\">degraded"));
  EXPECT_THAT(headline(board), HasSubstr("cpu-worker-0: alloc_failed. Requests are served."));
  board.cluster.set_ready(false);
  board.cluster.set_detail("a stage is lost");
  EXPECT_THAT(headline(board), HasSubstr("Requests are refused: a stage is lost"));
  board.workers[0].verdict = {};
  EXPECT_THAT(headline(board), HasSubstr("tag\">not ready"));
  board.gateway_up = false;
  EXPECT_THAT(headline(board), HasSubstr("tag bad\">unreachable"));
}

TEST(Page, EscapesWhatPeersSend) {
  v1::DescribeReply reply = HealthyReply();
  reply.set_state("<script>alert(1)</script>");
  reply.mutable_profile()->set_name("\"><img src=x>");
  Board board = BoardOf(reply);
  board.cluster.set_model("<b>");
  board.cluster.set_detail("<i>");
  const std::string html = RenderHtml(board);
  for (const char* markup : {"<script", "<img", "<h1><b>", "<i>"}) EXPECT_THAT(html, Not(HasSubstr(markup)));
}

TEST(Page, MarksBytesThatDifferFromThePlan) {
  v1::DescribeReply reply = HealthyReply();
  reply.mutable_allocated()->set_weights(2 << 20);
  EXPECT_THAT(RenderHtml(BoardOf(reply)), HasSubstr("2.0 MiB<br><small>planned 3.0 MiB</small>"));
}

TEST(Page, SaysWhenTheGatewayIsGoneOrNotConfigured) {
  Board board = BoardOf(HealthyReply());
  board.gateway_up = false;
  board.gateway_error = "refused";
  EXPECT_THAT(RenderHtml(board), HasSubstr("The gateway does not answer: refused"));
  board.gateway_configured = false;
  EXPECT_THAT(RenderHtml(board), HasSubstr("No gateway is configured"));
}

TEST(Page, JsonHoldsTheSameFacts) {
  Board board = BoardOf(HealthyReply());
  board.workers[0].verdict = {truth::Extent::kFull, "alloc_failed", "detail", "remedy"};
  const auto json = nlohmann::json::parse(RenderJson(board));
  const auto& worker = json["workers"][0];
  EXPECT_EQ(worker["name"], "cpu-worker-0");
  EXPECT_EQ(worker["cause"], "alloc_failed");
  EXPECT_EQ(worker["extent"], "full");
  EXPECT_EQ(worker["state"], "full fallback");
  EXPECT_EQ(worker["layers"]["planned"], 10);
  EXPECT_EQ(worker["memory"]["weights"]["allocated"], 3 << 20);
  EXPECT_EQ(json["gateway"]["model"], "tiny");
}

TEST(Page, JsonSurvivesTextThatIsNoUtf8) {
  Board board = BoardOf(HealthyReply());
  board.workers[0].error = "bad \xff\xfe bytes";
  EXPECT_NO_THROW(nlohmann::json::parse(RenderJson(board)));
}

TEST(Page, EmptyBoardRenders) {
  EXPECT_THAT(RenderHtml(Board()), HasSubstr("</html>"));
  EXPECT_EQ(nlohmann::json::parse(RenderJson(Board()))["workers"].size(), 0u);
}

}  // namespace
}  // namespace spillway::monitor
