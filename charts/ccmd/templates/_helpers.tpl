{{- define "ccmd.name" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "ccmd.selectorLabels" -}}
app.kubernetes.io/name: {{ include "ccmd.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ccmd.labels" -}}
{{ include "ccmd.selectorLabels" . }}
app.kubernetes.io/component: cloud-controller-manager
{{- end }}

{{- define "ccmd.securePort" -}}
{{ dig "secure-port" 10258 .Values.args | int }}
{{- end }}

{{/* Secrets and their keys have the names that the official controllers use, so existing Secrets can be kept. */}}
{{- define "ccmd.secretName" -}}
{{- $names := dict "brightbox" "brightbox-credentials" "cloudlycke" "ccmd" }}
{{- .Values.secretName | default (dig (index .Values.args "cloud-provider") "hcloud" $names) }}
{{- end }}

{{/* The variables that the chart sets, by name. Credentials are files: ccmd reads them again when the Secret changes. */}}
{{- define "ccmd.env" -}}
{{- $cloud := index .Values.args "cloud-provider" }}
{{- $secret := include "ccmd.secretName" . }}
{{- $network := .Values.networking.network | default (dict "valueFrom" (dict "secretKeyRef" (dict "name" $secret "key" "network"))) }}
POD_NAME: {valueFrom: {fieldRef: {fieldPath: metadata.name}}}
POD_NAMESPACE: {valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
POD_UID: {valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
{{- if eq $cloud "hcloud" "hcloud-from-scratch" "ccm-from-scratch" }}
HCLOUD_TOKEN_FILE: {value: /etc/ccmd/token}
{{- if or .Values.networking.enabled (ne $cloud "hcloud") }}
HCLOUD_NETWORK: {{ toJson $network }}
{{- end }}
{{- end }}
{{- if eq $cloud "hcloud" }}
# --metrics-bind-address serves these metrics as well, for all clouds
HCLOUD_METRICS_ENABLED: {value: "false"}
{{- if .Values.robot.enabled }}
ROBOT_ENABLED: {value: "true"}
ROBOT_USER_FILE: {value: /etc/ccmd/robot-user}
ROBOT_PASSWORD_FILE: {value: /etc/ccmd/robot-password}
{{- end }}
{{- end }}
{{- if eq $cloud "brightbox" }}
BRIGHTBOX_CLIENT_FILE: {value: /etc/ccmd/controller-client}
BRIGHTBOX_CLIENT_SECRET_FILE: {value: /etc/ccmd/controller-client-secret}
BRIGHTBOX_API_URL: {valueFrom: {secretKeyRef: {name: {{ $secret }}, key: apiurl, optional: true}}}
{{- end }}
{{- end }}
