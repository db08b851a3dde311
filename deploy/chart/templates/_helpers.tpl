{{- define "milepost.name" -}}
{{- .Values.nameOverride | default .Chart.Name -}}
{{- end -}}

{{/* Names all objects; with pointers in Kubernetes also the Lease and the ConfigMaps of the pointers. Never cut off: two
     releases whose names began alike would share their pointers. */}}
{{- define "milepost.fullname" -}}
{{- $name := include "milepost.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name -}}
{{- end -}}
{{- end -}}

{{/* The instance is the full name and not the release's: by it the election finds the Pods of its own deployment. */}}
{{- define "milepost.selectorLabels" -}}
app.kubernetes.io/name: {{ include "milepost.name" . }}
app.kubernetes.io/instance: {{ include "milepost.fullname" . }}
{{- end -}}

{{- define "milepost.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "milepost.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "milepost.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "milepost.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "milepost.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "milepost.hadoopConfigMap" -}}
{{- with .Values.blobs.hdfs -}}
{{- if .existingConfigMap -}}
{{- .existingConfigMap -}}
{{- else if .configuration -}}
{{- include "milepost.fullname" $ }}-hadoop
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether there is a Service of the leader alone: "true" or nothing. */}}
{{- define "milepost.labelsLeader" -}}
{{- if and .Values.leaderService.enabled (eq .Values.pointers.kind "kubernetes") -}}true{{- end -}}
{{- end -}}

{{/* Seconds until another replica takes over from a leader that died without a word. */}}
{{- define "milepost.leaseSeconds" -}}
{{- if eq .Values.pointers.kind "kubernetes" -}}
{{- .Values.pointers.kubernetes.leaseDuration -}}
{{- else -}}
{{- .Values.pointers.zookeeper.sessionTimeout -}}
{{- end -}}
{{- end -}}

{{/* A digest of a Secret or ConfigMap that somebody else made, where the cluster can be asked: `helm template` cannot. */}}
{{- define "milepost.digestOf" -}}
{{- $found := lookup "v1" .kind .namespace .name -}}
{{- if $found -}}{{- $found.data | toJson | sha256sum -}}{{- end -}}
{{- end -}}
