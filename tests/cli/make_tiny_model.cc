// Writes a tiny random model with a byte vocabulary, for tests that drive the programs from outside:
//   make-tiny-model FILE [N_LAYER [SEED [N_VOCAB [N_EMBD]]]]
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "engine/base/status.h"
#include "tests/support/tiny_model.h"

int main(int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') {
    const bool help = argc == 2 && std::strcmp(argv[1], "--help") == 0;
    std::fprintf(help ? stdout : stderr, "usage: make-tiny-model FILE [N_LAYER [SEED [N_VOCAB [N_EMBD]]]]\n");
    return help ? 0 : 2;
  }
  const auto number = [&](int index, uint32_t otherwise) {
    return argc > index ? static_cast<uint32_t>(std::strtoul(argv[index], nullptr, 10)) : otherwise;
  };
  spillway::test::TinyModel model;
  model.n_layer = number(2, 4);
  model.seed = number(3, 1);
  model.n_vocab = number(4, model.n_vocab);
  model.n_embd = number(5, model.n_embd);
  const auto written = spillway::test::WriteTinyModel(model, argv[1]);
  if (!written.ok()) {
    std::fprintf(stderr, "make-tiny-model: %s\n", spillway::MessageOf(written.status()).c_str());
    return 1;
  }
  return 0;
}
