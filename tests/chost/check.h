// What the C hosts share: a check that ends the process with the place and a sentence.
#pragma once

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition, ...)                                          \
    do {                                                               \
        if (!(condition)) {                                            \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
            fprintf(stderr, __VA_ARGS__);                              \
            fprintf(stderr, "\n");                                     \
            exit(1);                                                   \
        }                                                              \
    } while (0)
