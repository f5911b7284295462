// What a client says of the form of its answer (OpenAI's `response_format`) -> a constraint.
#pragma once

#include <memory>
#include <optional>

#include "gateway/http/api_error.h"
#include "gateway/http/bounded_json.h"
#include "gateway/http/served_model.h"

namespace spillway::gateway {

// "text" gives none. A schema's properties are answered in the order in which they stand.
std::optional<ApiError> ReadResponseFormat(const Json& format, const ServedModel& model,
                                           std::shared_ptr<grammar::Constraint>* constraint);

}  // namespace spillway::gateway
