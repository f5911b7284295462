// spillway-metrics-doc: prints docs/metrics.md, the catalogue as JSON, or docs/runbook.md.
#include <cstdio>
#include <string_view>

#include "telemetry/catalogue.h"
#include "truth/runbook.h"

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "--markdown";
  std::string text;
  if (mode == "--markdown") {
    text = spillway::telemetry::CatalogueMarkdown();
  } else if (mode == "--json") {
    text = spillway::telemetry::CatalogueJson() + "\n";
  } else if (mode == "--runbook") {
    text = spillway::truth::RunbookMarkdown();
  } else {
    std::fputs("usage: spillway-metrics-doc [--markdown | --json | --runbook]\n", stderr);
    return 2;
  }
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 1;
}
