// What Ollama's clients ask about the server and its one model: /api/version, /api/tags, /api/ps, /api/show.
#pragma once

#include <string_view>

#include "gateway/http/exchange.h"
#include "gateway/http/served_model.h"

namespace spillway::gateway {

HttpResponse OllamaVersion();
HttpResponse OllamaTags(const ServedModel& model);
// size and size_vram are what the workers hold, as they last said.
HttpResponse OllamaProcesses(const ServedModel& model);
HttpResponse OllamaShow(std::string_view body, const ServedModel& model);

}  // namespace spillway::gateway
