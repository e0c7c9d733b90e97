/* haproxy_file.h: the text of an HAProxy configuration. Pure.
 *
 * Names in it come from Kubernetes objects, so nothing of them gets there that is not a letter, a digit, "-", "_" or ".".
 * Addresses and numbers are written from their values. What is the same gives the same text.
 */
#ifndef CCMD_CLOUDLYCKE_HAPROXY_FILE_H
#define CCMD_CLOUDLYCKE_HAPROXY_FILE_H

#include "providers/cloudlycke/record.h"

/** Appends the whole file. Records that are going are left out. stats_socket empty: none, and neither HAProxy's view of its
 * servers nor whose client is whose is carried over a reload. Other sockets are named after it: SOCKET.peers, SOCKET.idle. */
void cl_haproxy_file(struct buf *b, struct cl_record *const records[], size_t n,
                     struct str stats_socket);

#endif
