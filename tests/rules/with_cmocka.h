// with_cmocka: cmocka behind the project's headers; both have a macro `fail`, tests mean cmocka's.
// Include it last.
#pragma once
#undef fail
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
