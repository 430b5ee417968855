/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A secondary index that always matches its records. One transaction writes a user and the user's entry in the
 * index of cities. When a user moves, one transaction writes the user and the new entry, and deletes the old one.
 * A transaction that reads a user and the entries always finds them consistent.
 *
 *     cc -o index index.c -lwss && ./index tcp://10.0.0.1:5600,tcp://10.0.0.2:5600
 */
#include <err.h>
#include <stdio.h>
#include <string.h>

#include <wss_kv.h>

struct names {
    char user[64], old_entry[128], new_entry[128];
};

static void name(struct names* n, int id, const char* from, const char* to) {
    snprintf(n->user, sizeof n->user, "user:%d", id);
    snprintf(n->old_entry, sizeof n->old_entry, "city:%s:%d", from, id);
    snprintf(n->new_entry, sizeof n->new_entry, "city:%s:%d", to, id);
}

/* Changes the user's record and both entries in one transaction. */
static void move(struct wss_kv* kv, int id, const char* from, const char* to) {
    struct names n;
    name(&n, id, from, to);
    struct wss_kv_write writes[] = {
        {n.user, strlen(n.user), to, strlen(to), 0},
        {n.new_entry, strlen(n.new_entry), "", 0, 0},
        {n.old_entry, strlen(n.old_entry), NULL, 0, 1},
    };
    /* A user without a city yet has no old entry. */
    if (wss_kv_put_all(kv, writes, from[0] == '\0' ? 2 : 3, 0, NULL) < 0) errx(1, "%s", wss_kv_error());
}

/* Returns 1 if the record and the two entries agree. */
static int agrees(struct wss_kv* kv, int id, const char* a, const char* b) {
    struct names n;
    name(&n, id, a, b);
    struct wss_kv_read reads[3] = {{.key = n.user, .key_length = strlen(n.user)},
                                   {.key = n.old_entry, .key_length = strlen(n.old_entry)},
                                   {.key = n.new_entry, .key_length = strlen(n.new_entry)}};
    if (wss_kv_get_all(kv, reads, 3) < 0) errx(1, "%s", wss_kv_error());
    const char* city = reads[0].found ? (const char*)reads[0].value : "";
    int good = reads[1].found == (strcmp(city, a) == 0) && reads[2].found == (strcmp(city, b) == 0);
    wss_kv_release(reads, 3);
    return good;
}

static int print_entry(void* context, const void* key, size_t length, uint64_t timestamp) {
    (void)timestamp;
    ++*(int*)context;
    printf("  %.*s\n", (int)length, (const char*)key);
    return 0;
}

int main(int argc, char** argv) {
    struct wss_kv_options options = {.size = sizeof options, .one_sided = 1};
    struct wss_kv *writer, *reader;
    int out_of_step = 0, entries = 0;

    if (argc != 2) errx(2, "usage: index TARGET[,TARGET...]");
    if (wss_kv_connect(argv[1], NULL, &writer) < 0 || wss_kv_connect(argv[1], &options, &reader) < 0)
        errx(1, "%s", wss_kv_error());
    for (int id = 0; id < 5; ++id) move(writer, id, "", "Turin");
    for (int round = 0; round < 200; ++round) {
        int id = round % 5, there = round / 5 % 2 == 0;
        move(writer, id, there ? "Turin" : "Delft", there ? "Delft" : "Turin");
        out_of_step += !agrees(reader, id, "Turin", "Delft");
    }
    printf("users by city:\n");
    if (wss_kv_scan(reader, "city:", 5, print_entry, &entries) < 0) errx(1, "%s", wss_kv_error());
    printf("%d entries, %d out of step\n", entries, out_of_step);
    wss_kv_disconnect(reader);
    wss_kv_disconnect(writer);
    return out_of_step != 0 || entries != 5;
}
