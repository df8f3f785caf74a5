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
{{- $repository := required "image.repository is needed: where you pushed the image, such as registry.example/kube-ipvs (docs/install.md)" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* What can never change: a DaemonSet's selector is immutable. */}}
{{- define "kube-ipvs.selectorLabels" -}}
app.kubernetes.io/name: {{ include "kube-ipvs.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "kube-ipvs.labels" -}}
k8s-app: {{ .Values.appLabel }}
{{ include "kube-ipvs.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "kube-ipvs.port" -}}
{{ . | splitList ":" | last }}
{{- end }}
