// docs/runbook.md from the table of causes: what an alert means and what to do.
#pragma once

#include <string>

namespace spillway::truth {

std::string RunbookMarkdown();

}  // namespace spillway::truth
