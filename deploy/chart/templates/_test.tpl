{{/* What the Pod of `helm test` has at hand: no more than it takes to be a client. */}}
{{- define "milepost.testMounts" -}}
{{- if .Values.cells }}
- name: cells
  mountPath: /etc/milepost/cells
  readOnly: true
{{- end }}
{{- if .Values.auth.existingSecret }}
- name: auth
  mountPath: /etc/milepost/auth
  readOnly: true
{{- end }}
{{- if .Values.auth.serviceAccounts.audience }}
- name: account
  mountPath: /etc/milepost/account
  readOnly: true
{{- end }}
{{- if include "milepost.testTlsItems" . | trim }}
- name: tls
  mountPath: /etc/milepost/tls
  readOnly: true
{{- end }}
{{- end -}}

{{- define "milepost.testVolumes" -}}
{{- if .Values.cells }}
- name: cells
  configMap:
    name: {{ include "milepost.fullname" . }}-cells
{{- end }}
{{- if .Values.auth.existingSecret }}
- name: auth
  secret:
    secretName: {{ .Values.auth.existingSecret }}
    defaultMode: 0440
    items:
      - key: {{ .Values.auth.key }}
        path: tokens
{{- end }}
{{- if .Values.auth.serviceAccounts.audience }}
- name: account
  projected:
    defaultMode: 0440
    sources:
      - serviceAccountToken:
          path: token
          audience: {{ .Values.auth.serviceAccounts.audience | quote }}
          expirationSeconds: 600
{{- end }}
{{- with include "milepost.testTlsItems" . | trim }}
- name: tls
  secret:
    secretName: {{ include "milepost.tlsSecret" $ }}
    defaultMode: 0440
    items:
      {{- . | nindent 6 }}
{{- end }}
{{- end -}}

{{- define "milepost.testTlsItems" -}}
{{- if include "milepost.tlsSecret" . }}
{{- $keys := list -}}
{{- with .Values.tls.caKey }}{{- $keys = append $keys . -}}{{- end }}
{{- if include "milepost.demandsCertificates" . }}{{- $keys = concat $keys (list "tls.crt" "tls.key") -}}{{- end }}
{{- range $keys }}
- key: {{ . }}
  path: {{ . }}
{{- end }}
{{- end }}
{{- end -}}
