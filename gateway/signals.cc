// See signals.h.
#include "gateway/signals.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace spillway::gateway {

namespace {

sigset_t EndSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

Signals::Signals() {
  const sigset_t set = EndSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

bool Signals::Pending() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1;
}

void Signals::Wait() {
  const sigset_t set = EndSignals();
  int signal = 0;
  while (sigwait(&set, &signal) != 0) {
  }
}

bool Signals::ExitWithParent() {
  const pid_t parent = getppid();
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  return getppid() == parent;
}

}  // namespace spillway::gateway
