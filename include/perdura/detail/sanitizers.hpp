// Whether this code is compiled for ThreadSanitizer, which GCC and Clang say differently.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define PERDURA_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PERDURA_THREAD_SANITIZER 1
#endif
#endif
