// A driver's shared library by its soname. Opened only in a probe's child process and never closed: a library
// that hangs or crashes while it is unloaded would tell us nothing new.
#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <string>

namespace spillway::device {

class DriverLibrary {
 public:
  // `folder` empty: the loader's ordinary search; else that absolute folder and nothing else.
  DriverLibrary(const std::string& soname, const std::string& folder);
  bool ok() const { return handle_ != nullptr; }
  const std::string& error() const { return error_; }  // the loader's own words
  const std::string& path() const { return path_; }    // with links resolved: its name ends in the version

  // The first name that is there; nullptr when none is. Versioned names come first in `names`.
  template <typename Function>
  Function Find(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      if (void* symbol = dlsym(handle_, name)) return reinterpret_cast<Function>(symbol);
    }
    return nullptr;
  }

 private:
  void* handle_ = nullptr;
  std::string error_;
  std::string path_;
};

}  // namespace spillway::device
