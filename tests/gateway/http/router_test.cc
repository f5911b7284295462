// Goal: paths and methods find their route, and only theirs. Method: a small table.
#include "gateway/http/router.h"

#include <gtest/gtest.h>

namespace spillway::gateway {
namespace {

using Kind = RouteMatch::Kind;

const std::vector<Route> kRoutes = {{"GET", "/models", 1}, {"GET", "/models/", 2}, {"POST", "/chat", 3}};

TEST(Router, FindsRoutesByMethodAndPath) {
  EXPECT_EQ(MatchRoute(kRoutes, "GET", "/models").id, 1);
  EXPECT_EQ(MatchRoute(kRoutes, "HEAD", "/models").id, 1);
  const RouteMatch nested = MatchRoute(kRoutes, "GET", "/models/org/name");
  EXPECT_EQ(nested.id, 2);
  EXPECT_EQ(nested.rest, "org/name");
  EXPECT_EQ(MatchRoute(kRoutes, "POST", "/chat").id, 3);
}

TEST(Router, TellsAnUnknownPathFromAWrongMethod) {
  EXPECT_EQ(MatchRoute(kRoutes, "GET", "/").kind, Kind::kNoPath);
  EXPECT_EQ(MatchRoute(kRoutes, "GET", "").kind, Kind::kNoPath);
  EXPECT_EQ(MatchRoute(kRoutes, "GET", "/models/").kind, Kind::kNoPath);
  EXPECT_EQ(MatchRoute(kRoutes, "POST", "/chat/").kind, Kind::kNoPath);
  EXPECT_EQ(MatchRoute(kRoutes, "GET", "/chat").allow, "POST");
  EXPECT_EQ(MatchRoute(kRoutes, "DELETE", "/models").allow, "GET, HEAD");
  EXPECT_EQ(MatchRoute(kRoutes, "HEAD", "/chat").kind, Kind::kNoMethod);
}

TEST(Router, DecodesTargets) {
  EXPECT_EQ(PathOfTarget("/a/b?x=%zz#y"), "/a/b");
  EXPECT_EQ(PathOfTarget("/a%2Fb%20c"), "/a/b c");
  for (const char* bad : {"", "a", "*", "http://x/", "/%", "/%2", "/%zz", "/%00", "/%-1"}) {
    EXPECT_EQ(PathOfTarget(bad), "") << bad;
  }
}

}  // namespace
}  // namespace spillway::gateway
