{{- define "ccmd.name" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/*
The name of the workload, and the beginning of the names of all other objects. Hetzner's chart names its workload by
nameOverride alone, and an upgrade of its release has to keep that name.
*/}}
{{- define "ccmd.fullname" -}}
{{- $both := contains .Chart.Name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) }}
{{- .Values.fullnameOverride | default .Values.nameOverride | default $both | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "ccmd.account" -}}
{{ .Values.serviceAccount.name | default (include "ccmd.fullname" .) }}
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

{{/*
The container of this release's workload in the cluster, as JSON; empty for a new installation, and for `helm template`, which
does not read the cluster. It is found by its annotation of the release, because an upgrade may change the name and the kind of
the workload, and the release may be of Hetzner's chart.
*/}}
{{- define "ccmd.former" -}}
{{- $found := list }}
{{- range $kind := list "Deployment" "DaemonSet" }}
{{- range (lookup "apps/v1" $kind $.Release.Namespace "").items }}
{{- if eq (dig "annotations" "meta.helm.sh/release-name" "" .metadata) $.Release.Name }}
{{- $found = concat $found .spec.template.spec.containers }}
{{- end }}
{{- end }}
{{- end }}
{{- with $found }}{{ first . | toJson }}{{ end }}
{{- end }}

{{/* Which load balancers hcloud may adopt; empty: the default of the program, which is by-name. */}}
{{- define "ccmd.adoption" -}}
{{- if .Values.loadBalancerAdoption }}
{{- .Values.loadBalancerAdoption }}
{{- else }}
{{- with include "ccmd.former" . }}
{{- range (fromJson .).env }}
{{- if eq .name "HCLOUD_LOAD_BALANCERS_ADOPTION" }}{{ get . "value" }}{{ end }}
{{- end }}
{{- else }}
{{- "labelled" }}
{{- end }}
{{- end }}
{{- end }}

{{/* "true", or empty: whether metrics are served over plain HTTP. */}}
{{- define "ccmd.hasPlainMetrics" -}}
{{- $enabled := .Values.monitoring.enabled }}
{{- if kindIs "bool" $enabled }}
{{- if $enabled }}true{{ end }}
{{- else }}
{{- with include "ccmd.former" . }}
{{- range (fromJson .).ports }}
{{- if eq (get . "name") "metrics" }}true{{ end }}
{{- end }}
{{- end }}
{{- end }}
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
{{- with include "ccmd.adoption" . }}
HCLOUD_LOAD_BALANCERS_ADOPTION: {value: {{ . }}}
{{- end }}
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

{{/* What the pods of the workload and of the test have in common. */}}
{{- define "ccmd.place" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .Values.hostNetwork }}
hostNetwork: true
{{- end }}
dnsPolicy: {{ .Values.dnsPolicy }}
{{- with .Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
tolerations:
  # The taint that ccmd removes, and the taints of nodes without a network.
  - key: node.cloudprovider.kubernetes.io/uninitialized
    operator: Exists
    effect: NoSchedule
  - key: node.kubernetes.io/network-unavailable
    operator: Exists
    effect: NoSchedule
  - key: node.kubernetes.io/not-ready
    operator: Exists
  - key: node.kubernetes.io/unreachable
    operator: Exists
    effect: NoExecute
    tolerationSeconds: 30
  # The taints of control planes: kubeadm, k3s and RKE2.
  - key: node-role.kubernetes.io/control-plane
    operator: Exists
  - key: node-role.kubernetes.io/etcd
    operator: Exists
  - key: CriticalAddonsOnly
    operator: Exists
  {{- with .Values.additionalTolerations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "ccmd.image" -}}
{{- with .Values.image }}
image: {{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
imagePullPolicy: {{ .pullPolicy }}
{{- end }}
{{- end }}

{{- define "ccmd.args" -}}
{{- range $flag, $value := .Values.args }}
{{- if kindIs "float64" $value }}
{{- $value = int64 $value }}
{{- end }}
{{- if not (kindIs "invalid" $value) }}
- {{ printf "--%s%s%v" $flag (eq (toString $value) "" | ternary "" "=") $value | toYaml }}
{{- end }}
{{- end }}
{{- if and (eq (index .Values.args "cloud-provider") "cloudlycke") (not (hasKey .Values.args "cloud-config")) }}
- --cloud-config=/etc/ccmd/cloud.yaml
{{- end }}
{{- if .Values.networking.enabled }}
- --cluster-cidr={{ .Values.networking.clusterCIDR }}
{{- end }}
{{- if include "ccmd.hasPlainMetrics" . }}
- --metrics-bind-address=:{{ .Values.monitoring.port }}
{{- end }}
{{- if and .Values.operatorRole.podProxy (not (hasKey .Values.args "authorization-always-allow-paths")) }}
- --authorization-always-allow-paths=/healthz,/readyz,/livez,/debug/objects/*
{{- end }}
{{- end }}

{{- define "ccmd.environment" -}}
{{- $env := include "ccmd.env" . | fromYaml }}
{{- range $name, $value := .Values.env }}
{{- $_ := set $env $name $value }}
{{- end }}
{{- range $name, $value := $env }}
{{- if $value }}
- name: {{ $name }}
  {{- toYaml $value | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{- define "ccmd.volumeMounts" -}}
- name: secret
  mountPath: /etc/ccmd
  readOnly: true
- name: certificate
  mountPath: /run/ccmd
{{- with .Values.extraVolumeMounts }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{- define "ccmd.volumes" -}}
- name: secret
  secret:
    secretName: {{ include "ccmd.secretName" . }}
    defaultMode: 0440
    optional: true # so that ccmd starts, and its log names the missing key
- name: certificate
  emptyDir:
    medium: Memory
    sizeLimit: 1Mi
{{- with .Values.extraVolumes }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}
