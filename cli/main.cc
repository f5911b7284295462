// The spillway command's entry; everything is in the library, where tests reach it.
#include "cli/command.h"

int main(int argc, char** argv) { return spillway::cli::Main(argc, argv); }
