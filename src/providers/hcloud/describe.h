/* describe.h: what a node gets from its machine: type, zone and region, addresses, labels
 * (docs/spec/hcloud.md, "Machine type and place" and "Machine addresses").
 *
 * Threads: pure, except for Events about addresses that are left out.
 */
#ifndef CCMD_HCLOUD_DESCRIBE_H
#define CCMD_HCLOUD_DESCRIBE_H

#include "providers/hcloud/client.h"
#include "providers/hcloud/hcloud.h"
#include "providers/hcloud/robot.h"

/** Robot and the cloud have separate credentials, so an answer of one proves nothing about the
 * machines of the other (struct instance). */
enum hz_realm {
	HZ_REALM_CLOUD,
	HZ_REALM_ROBOT,
};

#define HZ_ANNOTATION_IPV6 "instance.hetzner.cloud/external-ipv6"

/** Fills *ret, with texts in the arena; presence is PRESENT. */
void hz_describe_cloud(const struct hcloud *, struct arena *, const struct node_ref *ref,
                       const struct hz_server *server, struct instance *ret);
/** As hz_describe_cloud(); power is left unknown. */
void hz_describe_robot(const struct hcloud *, struct arena *, const struct node_ref *ref,
                       const struct hz_robot_server *server, struct instance *ret);

#endif
