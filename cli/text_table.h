// A table of text for people: a header, rows, columns as wide as they need to be. Knows nothing of what is in
// it.
#pragma once

#include <string>
#include <vector>

namespace spillway::cli {

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : rows_{std::move(header)} {}
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  // Every line ends in a newline; no trailing spaces. Cells that begin with a digit are right-aligned.
  std::string Render() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace spillway::cli
