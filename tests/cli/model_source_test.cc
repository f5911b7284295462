// Goal: ollama:NAME finds the file that Ollama's manifest names, and says what is wrong where it does not.
// Method: stores in a temporary folder, written as Ollama writes them.
#include "cli/plan/model_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/files.h"

namespace spillway::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ModelSourceTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const fs::path file = fs::path(store_) / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void AddModel(const std::string& name, const std::string& layers) {
    Write("manifests/" + name, R"({"schemaVersion":2,"layers":[)" + layers + "]}");
  }
  static std::string Layer(const std::string& kind, const std::string& digest) {
    return R"({"mediaType":"application/vnd.ollama.image.)" + kind + R"(","digest":"sha256:)" + digest +
           R"("})";
  }
  std::string Error(const std::string& name) {
    const auto found = FindModel(name, {"/nowhere", store_});
    return found.ok() ? "found" : std::string(found.status().message());
  }

  test::TempDir folder_;
  std::string store_ = folder_.File("models");
};

TEST_F(ModelSourceTest, APathIsItself) {
  const auto found = FindModel("some/model.gguf", {});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->path, "some/model.gguf");
  EXPECT_EQ(found->name, "");
}

TEST_F(ModelSourceTest, NamesAreFoundWithAndWithoutTag) {
  AddModel("registry.ollama.ai/library/llama3.2/latest",
           Layer("model", "aa") + "," + Layer("template", "bb"));
  AddModel("registry.ollama.ai/me/mine/7b-q4", Layer("model", "aa"));
  AddModel("hf.co/org/repo/Q4", Layer("model", "aa"));
  Write("blobs/sha256-aa", "x");
  const std::pair<const char*, const char*> cases[] = {{"ollama:llama3.2", "llama3.2:latest"},
                                                       {"ollama:llama3.2:latest", "llama3.2:latest"},
                                                       {"ollama:me/mine:7b-q4", "me/mine:7b-q4"},
                                                       {"ollama:hf.co/org/repo:Q4", "hf.co/org/repo:Q4"}};
  for (const auto& [argument, name] : cases) {
    const auto found = FindModel(argument, {"/nowhere", store_});
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->path, store_ + "/blobs/sha256-aa");
    EXPECT_EQ(found->name, name);
  }
}

TEST_F(ModelSourceTest, AMissingModelListsWhatThereIs) {
  EXPECT_THAT(Error("ollama:nothing"), HasSubstr("none at all"));
  AddModel("registry.ollama.ai/library/llama3.2/1b", Layer("model", "aa"));
  EXPECT_THAT(Error("ollama:llama3.2"), HasSubstr("there is: llama3.2:1b"));
  EXPECT_THAT(Error("ollama:llama3.2"), HasSubstr(store_));
  EXPECT_THAT(Error("ollama:llama3.2:1b"), HasSubstr("missing"));
}

TEST_F(ModelSourceTest, WhatCannotBeServedIsNamed) {
  Write("blobs/sha256-aa", "x");
  AddModel("registry.ollama.ai/library/a/latest", Layer("model", "aa") + "," + Layer("adapter", "bb"));
  EXPECT_THAT(Error("ollama:a"), HasSubstr("'adapter' (sha256:bb)"));
  AddModel("registry.ollama.ai/library/b/latest", Layer("model", "aa") + "," + Layer("projector", "bb"));
  EXPECT_THAT(Error("ollama:b"), HasSubstr("'projector'"));
  AddModel("registry.ollama.ai/library/c/latest", Layer("model", "aa") + "," + Layer("model", "bb"));
  EXPECT_THAT(Error("ollama:c"), HasSubstr("2 model layers"));
  AddModel("registry.ollama.ai/library/d/latest", Layer("template", "aa"));
  EXPECT_THAT(Error("ollama:d"), HasSubstr("0 model layers"));
  AddModel("registry.ollama.ai/library/e/latest", Layer("model", "/../../../etc/passwd"));
  EXPECT_THAT(Error("ollama:e"), HasSubstr("no digest"));
  Write("manifests/registry.ollama.ai/library/f/latest", "nonsense");
  EXPECT_THAT(Error("ollama:f"), HasSubstr("no manifest"));
}

TEST_F(ModelSourceTest, NamesCannotLeaveTheStore) {
  for (const char* name :
       {"ollama:", "ollama:../x", "ollama:a/../../b", "ollama:a:b/c/d/e", "ollama:/a", "ollama:a:.."}) {
    EXPECT_THAT(Error(name), HasSubstr("a model is ollama:NAME")) << name;
  }
}

}  // namespace
}  // namespace spillway::cli
