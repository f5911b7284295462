// The table itself: naming rules, one owner per metric, and documents that are current.
#include "telemetry/catalogue.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "truth/runbook.h"
#include "truth/verdict.h"

namespace spillway::telemetry {
namespace {

std::string FileText(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(Catalogue, FollowsTheNamingRules) {
  const std::regex name("(spillway|process)_[a-z0-9_]+[a-z]");
  std::set<std::string> seen;
  for (const MetricSpec& metric : Catalogue()) {
    EXPECT_TRUE(std::regex_match(metric.name, name)) << metric.name;
    EXPECT_TRUE(seen.insert(metric.name).second) << metric.name << " stands twice";
    EXPECT_EQ(metric.name.ends_with("_total"), metric.type == MetricType::kCounter) << metric.name;
    EXPECT_EQ(metric.buckets.empty(), metric.type != MetricType::kHistogram) << metric.name;
    EXPECT_TRUE(std::is_sorted(metric.buckets.begin(), metric.buckets.end())) << metric.name;
    EXPECT_FALSE(metric.help.empty()) << metric.name;
  }
}

TEST(Catalogue, KnowsEveryCause) {
  const MetricSpec* metric = FindMetric("spillway_fallback_active");
  ASSERT_NE(metric, nullptr);
  ASSERT_EQ(metric->labels.front().values.size(), truth::Causes().size());
  for (size_t i = 0; i < truth::Causes().size(); ++i) {
    EXPECT_EQ(metric->labels.front().values[i], truth::Causes()[i].name);
  }
}

TEST(Catalogue, JsonHoldsEveryRow) {
  const auto json = nlohmann::json::parse(CatalogueJson());
  ASSERT_EQ(json["metrics"].size(), Catalogue().size());
  EXPECT_EQ(json["metrics"][0]["name"], Catalogue()[0].name);
}

// Both documents: build/PRESET/bin/spillway-metrics-doc [--runbook] > docs/....md
TEST(Catalogue, DocumentIsCurrent) { EXPECT_EQ(FileText("docs/metrics.md"), CatalogueMarkdown()); }
TEST(Catalogue, RunbookIsCurrent) { EXPECT_EQ(FileText("docs/runbook.md"), truth::RunbookMarkdown()); }

}  // namespace
}  // namespace spillway::telemetry
