// The least that a test needs: CHECK counts and reports, THROWS wants an error whose message holds a text.
#pragma once

#include <cstdio>
#include <exception>
#include <string>

namespace check {

inline int failures = 0;
inline int checks = 0;

inline void report(bool holds, const char* what, const char* file, int line, const std::string& more = {}) {
  ++checks;
  if (holds) return;
  if (++failures > 20) return;  // enough is said
  std::fprintf(stderr, "%s:%d: failed: %s %s\n", file, line, what, more.c_str());
}

inline int finish() {
  std::printf("%d checks, %d failed\n", checks, failures);
  return failures == 0 && checks > 0 ? 0 : 1;
}

}  // namespace check

#define CHECK(condition) check::report((condition), #condition, __FILE__, __LINE__)

#define THROWS(expression, Error, text)                                                               \
  do {                                                                                                \
    std::string caught = "nothing";                                                                   \
    bool right = false;                                                                               \
    try {                                                                                             \
      (void)(expression);                                                                             \
    } catch (const Error& error) {                                                                    \
      caught = error.what();                                                                          \
      right = caught.find(text) != std::string::npos;                                                 \
    } catch (const std::exception& error) {                                                           \
      caught = std::string("another error: ") + error.what();                                         \
    }                                                                                                 \
    check::report(right, #expression " throws " #Error, __FILE__, __LINE__, "(got: " + caught + ")"); \
  } while (false)
