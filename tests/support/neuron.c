/* A stand-in for the Neuron runtime's library, libnrt. The environment variable STAND_IN_NRT_INIT
   says what nrt_init does: it returns this number (0 if the variable is not set), never returns
   (`hang`), or aborts the process (`crash`). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int nrt_get_version(uint64_t *numbers, size_t size) {
    if (size != 4 * sizeof(uint64_t) + 128 + 64) return 2;
    const uint64_t version[] = {2, 33, 10, 0};
    memcpy(numbers, version, sizeof version);
    return 0;
}

int nrt_init(int framework, const char *name, const char *version) {
    const char *does = getenv("STAND_IN_NRT_INIT");
    if (framework != 1 || !name || !version) return 2;
    if (!does) return 0;
    fprintf(stderr, "NRT: stand-in: %s\n", does);
    if (!strcmp(does, "crash")) abort();
    while (!strcmp(does, "hang")) pause();
    return atoi(does);
}

int nrt_get_visible_nc_count(uint32_t *count) {
    const char *lnc = getenv("NEURON_LOGICAL_NC_CONFIG");
    *count = lnc && atoi(lnc) == 2 ? 32 : 64;
    return 0;
}

void nrt_close(void) {}
