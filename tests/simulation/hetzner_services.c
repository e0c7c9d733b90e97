/* hetzner_services.c: the services of balancers: what is stored for a body, and how it is shown. */
#include <string.h>

#include "hetzner_internal.h"

/* ---- members of a body ---- */

/* A member that is missing leaves *ret as it is. */
static void
hm_take_text(struct hm_call *call, yyjson_val *body, const char *name, struct str *ret)
{
	struct str text;

	if (json_str(body, name, &text) == JSON_FOUND)
		*ret = arena_str(&call->h->arena, text);
}

static void
hm_take_certificates(struct hm_call *call, yyjson_val *list, struct hetzner_service *service)
{
	yyjson_val *one;
	size_t i, n;

	if (!list)
		return;
	service->n_certificates = 0;
	service->certificates = arena_calloc(&call->h->arena, yyjson_arr_size(list),
	                                     sizeof(int64_t));
	yyjson_arr_foreach(list, i, n, one)
		service->certificates[service->n_certificates++] = yyjson_get_sint(one);
}

static void
hm_take_http(struct hm_call *call, yyjson_val *http, struct hetzner_service *service)
{
	hm_take_text(call, http, "cookie_name", &service->cookie_name);
	json_i64(http, "cookie_lifetime", &service->cookie_lifetime_s);
	json_i64(http, "timeout_idle", &service->timeout_idle_s);
	json_bool(http, "redirect_http", &service->redirects_http);
	json_bool(http, "sticky_sessions", &service->is_sticky);
	hm_take_certificates(call, yyjson_obj_get(http, "certificates"), service);
}

static void
hm_take_check_http(struct hm_call *call, yyjson_val *http, struct hetzner_check *check)
{
	yyjson_val *codes = yyjson_obj_get(http, "status_codes"), *one;
	size_t i, n;

	check->has_domain = check->has_domain && !yyjson_is_null(yyjson_obj_get(http, "domain"));
	if (yyjson_is_str(yyjson_obj_get(http, "domain")))
		check->has_domain = true;
	hm_take_text(call, http, "domain", &check->domain);
	hm_take_text(call, http, "path", &check->path);
	hm_take_text(call, http, "response", &check->response);
	json_bool(http, "tls", &check->is_tls);
	if (!codes)
		return;
	check->n_status_codes = 0;
	check->status_codes = arena_calloc(&call->h->arena, yyjson_arr_size(codes),
	                                   sizeof(struct str));
	yyjson_arr_foreach(codes, i, n, one)
	{
		check->status_codes[check->n_status_codes++] = arena_str(&call->h->arena,
		                                                         json_text(one));
	}
}

/* ---- defaults ---- */

static void
hm_set_http_defaults(struct hetzner_service *service)
{
	service->cookie_name = STR("HCLBSTICKY");
	service->cookie_lifetime_s = 300;
	service->timeout_idle_s = 60;
	service->certificates = NULL;
	service->n_certificates = 0;
	service->redirects_http = service->is_sticky = false;
}

static void
hm_set_check_http_defaults(struct hetzner_check *check)
{
	static struct str codes[] = { { "2??", 3 }, { "3??", 3 } };

	check->has_domain = true;
	check->domain = STR_EMPTY;
	check->path = STR("/");
	check->response = STR_EMPTY;
	check->status_codes = codes;
	check->n_status_codes = 2;
	check->is_tls = false;
}

/* ---- checks ---- */

static bool
hm_check_certificates(struct hm_call *call, const struct hetzner_balancer *lb,
                      const struct hetzner_service *service)
{
	for (size_t i = 0; i < service->n_certificates; i++) {
		int64_t id = service->certificates[i];

		if (!hetzner_find(&call->p->base, HETZNER_CERTIFICATE, id))
			return hm_refuse_field(call, "http.certificates",
			                       "certificate with ID %lld not found", (long long)id);
	}
	if (str_eq_c(service->protocol, "https") && service->n_certificates == 0)
		return hm_refuse_field(call, "http.certificates",
		                       "at least one certificate is required for protocol https");
	if ((int64_t)service->n_certificates > lb->type->max_certificates)
		return hm_refuse(call, "resource_limit_exceeded",
		                 "too many certificates for this load balancer type");
	return true;
}

static bool
hm_check_http(struct hm_call *call, const struct hetzner_balancer *lb, yyjson_val *asked,
              const struct hetzner_service *service)
{
	if (!hm_check_certificates(call, lb, service))
		return false;
	if (yyjson_obj_size(asked) == 0)
		return true;
	if (service->redirects_http && !str_eq_c(service->protocol, "https"))
		return hm_refuse_field(call, "http.redirect_http",
		                       "is only possible with protocol https");
	if (service->is_sticky && str_eq_c(service->protocol, "tcp"))
		return hm_refuse_field(call, "http.sticky_sessions",
		                       "is not possible with protocol tcp");
	return true;
}

/* ---- merging ---- */

static bool
hm_merge_check(struct hm_call *call, yyjson_val *asked, struct hetzner_check *check)
{
	yyjson_val *http = yyjson_obj_get(asked, "http");
	bool was_http = str_eq_c(check->protocol, "http");

	hm_take_text(call, asked, "protocol", &check->protocol);
	json_i64(asked, "port", &check->port);
	json_i64(asked, "interval", &check->interval_s);
	json_i64(asked, "timeout", &check->timeout_s);
	json_i64(asked, "retries", &check->retries);
	if (str_eq_c(check->protocol, "http")) {
		if (!was_http)
			hm_set_check_http_defaults(check);
		hm_take_check_http(call, http, check);
	} else if (http) {
		return hm_refuse_field(call, "health_check.http",
		                       "is not possible with protocol tcp");
	}
	return true;
}

bool
hm_merge_service(struct hm_call *call, const struct hetzner_balancer *lb, yyjson_val *body,
                 struct hetzner_service *service)
{
	yyjson_val *http = yyjson_obj_get(body, "http");

	if (str_eq_c(service->protocol, "tcp"))
		hm_set_http_defaults(service);
	hm_take_text(call, body, "protocol", &service->protocol);
	json_i64(body, "destination_port", &service->destination_port);
	json_bool(body, "proxyprotocol", &service->has_proxy_protocol);
	hm_take_http(call, http, service);
	if (!hm_merge_check(call, yyjson_obj_get(body, "health_check"), &service->check) ||
	    !hm_check_http(call, lb, http, service))
		return false;
	if (str_eq_c(service->protocol, "tcp"))
		hm_set_http_defaults(service);
	return true;
}

size_t
hm_find_service(const struct hetzner_balancer *lb, int64_t listen_port)
{
	size_t i = 0;

	while (i < lb->n_services && lb->services[i].listen_port != listen_port)
		i++;
	return i;
}

bool
hm_new_service(struct hm_call *call, const struct hetzner_balancer *lb, yyjson_val *body,
               struct hetzner_service *ret)
{
	struct hetzner_service service = { .protocol = STR("tcp"), .destination_port = 80 };
	struct str protocol = STR_EMPTY;

	json_i64(body, "listen_port", &service.listen_port);
	if (hm_find_service(lb, service.listen_port) < lb->n_services)
		return hm_refuse(call, "source_port_already_used", "the port %lld is already used",
		                 (long long)service.listen_port);
	if ((int64_t)lb->n_services >= lb->type->max_services)
		return hm_refuse(call, "resource_limit_exceeded", "%s can have %lld services",
		                 lb->type->name, (long long)lb->type->max_services);
	json_str(body, "protocol", &protocol);
	if (str_eq_c(protocol, "tcp") && !yyjson_obj_get(body, "destination_port"))
		return hm_refuse_field(call, "destination_port", "is required for protocol tcp");
	json_i64(body, "destination_port", &service.destination_port);
	service.check = (struct hetzner_check){ .protocol = STR("tcp"),
		                                .port = service.destination_port,
		                                .interval_s = 15,
		                                .timeout_s = 10,
		                                .retries = 3 };
	if (!hm_merge_service(call, lb, body, &service))
		return false;
	*ret = service;
	return true;
}

/* ---- shown ---- */

static void
hm_add_check(struct buf *b, const struct hetzner_check *check)
{
	json_begin_object(b, "health_check");
	json_add_text(b, "protocol", check->protocol);
	json_add_number(b, "port", check->port);
	json_add_number(b, "interval", check->interval_s);
	json_add_number(b, "timeout", check->timeout_s);
	json_add_number(b, "retries", check->retries);
	if (str_eq_c(check->protocol, "http")) {
		json_begin_object(b, "http");
		hm_add_text_or_null(b, "domain",
		                    check->has_domain ? check->domain : (struct str){ 0 });
		json_add_text(b, "path", check->path);
		json_add_text(b, "response", check->response);
		json_add_texts(b, "status_codes", check->status_codes, check->n_status_codes);
		json_add_flag(b, "tls", check->is_tls);
		json_end_object(b);
	}
	json_end_object(b);
}

static void
hm_add_http(struct buf *b, const struct hetzner_service *service)
{
	json_begin_object(b, "http");
	json_add_text(b, "cookie_name", service->cookie_name);
	json_add_number(b, "cookie_lifetime", service->cookie_lifetime_s);
	json_begin_array(b, "certificates");
	for (size_t i = 0; i < service->n_certificates; i++)
		json_add_number(b, NULL, service->certificates[i]);
	json_end_array(b);
	json_add_flag(b, "redirect_http", service->redirects_http);
	json_add_flag(b, "sticky_sessions", service->is_sticky);
	json_add_number(b, "timeout_idle", service->timeout_idle_s);
	json_end_object(b);
}

void
hm_add_services(struct buf *b, const struct hetzner_balancer *lb)
{
	json_begin_array(b, "services");
	for (size_t i = 0; i < lb->n_services; i++) {
		const struct hetzner_service *service = &lb->services[i];

		json_begin_object(b, NULL);
		json_add_text(b, "protocol", service->protocol);
		json_add_number(b, "listen_port", service->listen_port);
		json_add_number(b, "destination_port", service->destination_port);
		json_add_flag(b, "proxyprotocol", service->has_proxy_protocol);
		if (!str_eq_c(service->protocol, "tcp"))
			hm_add_http(b, service);
		hm_add_check(b, &service->check);
		json_end_object(b);
	}
	json_end_array(b);
}
