// Functions of the C library that its headers do not declare: what they make of others with
// _FORTIFY_SOURCE, or for large files.
#pragma once

#include <sys/types.h>

#include <cstdarg>
#include <cstddef>
#include <cstdio>

extern "C" {
void* __memcpy_chk(void*, const void*, size_t, size_t);
void* __memmove_chk(void*, const void*, size_t, size_t);
void* __mempcpy_chk(void*, const void*, size_t, size_t);
void* __memset_chk(void*, int, size_t, size_t);
wchar_t* __wmemcpy_chk(wchar_t*, const wchar_t*, size_t, size_t);
wchar_t* __wmemmove_chk(wchar_t*, const wchar_t*, size_t, size_t);
wchar_t* __wmemset_chk(wchar_t*, wchar_t, size_t, size_t);
wchar_t* __wcscpy_chk(wchar_t*, const wchar_t*, size_t);
char* __strcpy_chk(char*, const char*, size_t);
char* __strncpy_chk(char*, const char*, size_t, size_t);
char* __stpcpy_chk(char*, const char*, size_t);
char* __stpncpy_chk(char*, const char*, size_t, size_t);
char* __strcat_chk(char*, const char*, size_t);
char* __strncat_chk(char*, const char*, size_t, size_t);
int __sprintf_chk(char*, int, size_t, const char*, ...);
int __snprintf_chk(char*, size_t, int, size_t, const char*, ...);
int __vsprintf_chk(char*, int, size_t, const char*, va_list);
int __vsnprintf_chk(char*, size_t, int, size_t, const char*, va_list);
ssize_t __read_chk(int, void*, size_t, size_t);
ssize_t __pread_chk(int, void*, size_t, off_t, size_t);
ssize_t __recv_chk(int, void*, size_t, size_t, int);
char* __fgets_chk(char*, size_t, int, std::FILE*);
size_t __fread_chk(void*, size_t, size_t, size_t, std::FILE*);
ssize_t __getdelim(char**, size_t*, int, std::FILE*);
}
