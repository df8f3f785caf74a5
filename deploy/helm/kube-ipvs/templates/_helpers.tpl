{{- define "kube-ipvs.name" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "kube-ipvs.fullname" -}}
{{- $name := include "kube-ipvs.name" . -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains $name .Release.Name -}}
{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{- define "kube-ipvs.daemonSetName" -}}
{{- $name := include "kube-ipvs.fullname" . -}}
{{ ternary (printf "%s-clean-up" ($name | trunc 54 | trimSuffix "-")) $name (hasKey . "cleanUp") }}
{{- end }}

{{- define "kube-ipvs.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "kube-ipvs.fullname" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end }}

{{- define "kube-ipvs.configMap" -}}
{{ .Values.existingConfigMap | default (include "kube-ipvs.fullname" .) }}
{{- end }}

{{- define "kube-ipvs.image" -}}
{{- $repository := required "image.repository is needed: the repository to which you pushed the image, such as registry.example/kube-ipvs (docs/install.md)" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* Checksum of the configuration. An existing ConfigMap is read from the cluster, so `helm template` does not see its content. */}}
{{- define "kube-ipvs.checksum" -}}
{{- if .Values.existingConfigMap -}}
{{- $found := lookup "v1" "ConfigMap" .Release.Namespace .Values.existingConfigMap -}}
{{ toYaml ($found.data | default dict) | sha256sum }}
{{- else -}}
{{ toYaml .Values.config | printf "%s%s" .Values.apiServer | sha256sum }}
{{- end -}}
{{- end }}

{{/* A DaemonSet's selector is immutable. */}}
{{- define "kube-ipvs.selectorLabels" -}}
{{- if .cleanUp -}}
k8s-app: {{ include "kube-ipvs.daemonSetName" . }}
{{- else -}}
app.kubernetes.io/name: {{ include "kube-ipvs.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- end }}

{{- define "kube-ipvs.labels" -}}
{{- if not .cleanUp -}}
k8s-app: {{ .Values.appLabel }}
{{ end -}}
{{ include "kube-ipvs.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "kube-ipvs.port" -}}
{{ . | splitList ":" | last }}
{{- end }}

{{/* A manifest from deploy/kustomize with the release's namespace and image. Takes a dict of text and root. */}}
{{- define "kube-ipvs.placed" -}}
{{- $image := include "kube-ipvs.image" .root | printf "image: %s" -}}
{{ regexReplaceAllLiteral "image: kube-ipvs:.*" (.text | replace "kube-system" .root.Release.Namespace) $image }}
{{- end }}
